// Command simulate plays the settle protocol in simulated time, from a seed.
package main

import (
	"orderpost/internal/program"
	"orderpost/internal/program/simulate"
)

func main() { program.Main(simulate.Run) }
