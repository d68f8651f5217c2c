package worker

import (
	"os"
	"runtime/debug"
)

// The live heap holds the program, and each order in flight with its connection
// and goroutine. In bytes.
const (
	heapBase     = 8 << 20
	heapPerOrder = 8 << 10
	// heapRoom is how much may be allocated beyond that before the collector runs.
	heapRoom = 32 << 20
)

// tuneMemory lets a small heap grow by heapRoom between two collections. With
// Go's default, which is as much as lives, a worker with few orders in flight
// would collect many times a second. GOGC or GOMEMLIMIT, where set, stay as they
// are.
func tuneMemory(concurrency int) {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(gcPercent(concurrency))
	}
}

// gcPercent is less than Go's default for thousands of orders in flight, whose stacks count
// twice otherwise. Far below that the collector takes much of a processor.
func gcPercent(concurrency int) int {
	return max(45, 100*heapRoom/(heapBase+concurrency*heapPerOrder))
}
