// Command sandbox is the order API as a local server, for trying orderpost out
// and for testing what it does when the API misbehaves.
package main

import (
	"orderpost/internal/cli"
	"orderpost/internal/cli/sandbox"
)

func main() { cli.Main(sandbox.Run) }
