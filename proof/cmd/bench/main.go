// Command bench compares the worker with the loops that its users would write
// themselves, on one machine in one go.
package main

import (
	"orderpost/internal/cli"
	"orderpost/proof/bench"
)

func main() { cli.Main(bench.Run) }
