// Command enqueue puts orders into the queue.
package main

import (
	"orderpost/internal/program"
	"orderpost/internal/program/enqueue"
)

func main() { program.Main(enqueue.Run) }
