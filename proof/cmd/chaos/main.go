// Command chaos kills workers and brokers under load and balances the books.
package main

import (
	"orderpost/internal/program"
	"orderpost/proof/chaos"
)

func main() { program.Main(chaos.Run) }
