// Command bench compares the worker with the loops that its users would write
// themselves, on one machine in one go.
package main

import (
	"orderpost/internal/program"
	"orderpost/proof/bench"
)

func main() { program.Main(bench.Run) }
