// Command worker takes orders from the queue to the API and accounts for every
// one of them.
package main

import (
	"orderpost/internal/program"
	"orderpost/internal/program/worker"
)

func main() { program.Main(worker.Run) }
