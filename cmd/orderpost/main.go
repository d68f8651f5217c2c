// Command orderpost is the one program: the worker, enqueue, deadletter and
// everything that people ask of the fleet and of an order. Started by the name
// worker, enqueue or deadletter it is that program.
package main

import (
	"orderpost/internal/cli"
	"orderpost/internal/cli/orderpost"
)

func main() { cli.Main(orderpost.Main()) }
