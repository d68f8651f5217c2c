// Command demo runs the whole job in one process on real parts and balances
// the books.
package main

import (
	"orderpost/internal/program"
	"orderpost/internal/program/demo"
)

func main() { program.Main(demo.Run) }
