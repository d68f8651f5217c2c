// Command demo runs the whole job in one process on real parts and balances
// the books.
package main

import (
	"orderpost/internal/cli"
	"orderpost/internal/cli/demo"
)

func main() { cli.Main(demo.Run) }
