// Command sandbox is the order API as a local server, for trying orderpost out
// and for testing what it does when the API misbehaves.
package main

import (
	"orderpost/internal/program"
	"orderpost/internal/program/sandbox"
)

func main() { program.Main(sandbox.Run) }
