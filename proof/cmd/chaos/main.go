// Command chaos kills workers and brokers under load and balances the books.
package main

import (
	"orderpost/internal/cli"
	"orderpost/proof/chaos"
)

func main() { cli.Main(chaos.Run) }
