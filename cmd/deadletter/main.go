// Command deadletter works dead letters off.
package main

import (
	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
)

func main() { cli.Main(deadletter.Run) }
