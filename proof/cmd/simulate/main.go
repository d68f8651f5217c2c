// Command simulate plays the settle protocol in simulated time, from a seed.
package main

import (
	"runtime/debug"

	"orderpost/internal/cli"
	"orderpost/proof/simulate"
)

func main() {
	debug.SetGCPercent(800) // a schedule's garbage is small, and all of it at once
	cli.Main(simulate.Run)
}
