package worker

import (
	"os"
	"runtime/debug"
)

// What the live heap is about, in bytes: of the program, and of each order in
// flight with its connection and goroutine.
const (
	heapBase     = 8 << 20
	heapPerOrder = 8 << 10
	// heapRoom is what may be allocated beyond that before the collector runs.
	heapRoom = 32 << 20
	// leastPercent of the live heap may be allocated in any case.
	leastPercent = 50
)

// tuneMemory lets a small heap grow by heapRoom between two collections: with
// Go's default, which is as much as lives, a worker with few orders in flight
// would collect many times a second, and one with thousands would hold much that is
// garbage. GOGC or GOMEMLIMIT, where set, stay as they
// are.
func tuneMemory(concurrency int) {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(gcPercent(concurrency))
	}
}

func gcPercent(concurrency int) int {
	return max(leastPercent, 100*heapRoom/(heapBase+concurrency*heapPerOrder))
}
