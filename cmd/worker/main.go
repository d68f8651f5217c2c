// Command worker takes orders from the queue to the API and accounts for every
// one of them.
package main

import (
	"orderpost/internal/cli"
	"orderpost/internal/cli/worker"
)

func main() { cli.Main(worker.Run) }
