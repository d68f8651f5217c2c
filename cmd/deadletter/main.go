// Command deadletter works dead letters off.
package main

import (
	"orderpost/internal/program"
	"orderpost/internal/program/deadletter"
)

func main() { program.Main(deadletter.Run) }
