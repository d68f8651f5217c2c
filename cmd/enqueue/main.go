// Command enqueue puts orders into the queue.
package main

import (
	"orderpost/internal/cli"
	"orderpost/internal/cli/enqueue"
)

func main() { cli.Main(enqueue.Run) }
