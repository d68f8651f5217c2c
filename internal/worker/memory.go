package worker

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
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

// From manyOrders in flight on, what lies idle between two collections is worth
// giving back: stacks that have grown, buffers of a burst. The limit is what
// the program and as many orders need, in bytes of all memory that Go manages.
const (
	manyOrders    = 1000
	limitBase     = 24 << 20
	limitPerOrder = 18 << 10
	// limitRoom is the share of the live heap, in percent, that the limit leaves
	// to be allocated in any case.
	limitRoom = 25
	// limitPace is how often the limit is compared with what is really needed.
	limitPace = 250 * time.Millisecond
)

// tuneMemory lets a small heap grow by heapRoom between two collections: with
// Go's default, which is as much as lives, a worker with few orders in flight
// would collect many times a second, and one with thousands would hold much that is
// garbage. Thousands get a limit as well, until ctx ends. GOGC or GOMEMLIMIT, where
// set, stay as they are.
func tuneMemory(ctx context.Context, concurrency int) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(gcPercent(concurrency))
	if concurrency >= manyOrders {
		go limitMemory(ctx, limitBase+int64(concurrency)*limitPerOrder)
	}
}

func gcPercent(concurrency int) int {
	return max(leastPercent, 100*heapRoom/(heapBase+concurrency*heapPerOrder))
}

// limitMemory sets the memory limit, and raises it where larger orders need
// more: near its limit Go would collect without an end.
func limitMemory(ctx context.Context, usual int64) {
	need := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"}, {Name: "/memory/classes/metadata/other:bytes"}, {Name: "/memory/classes/other:bytes"}}
	tick := time.NewTicker(limitPace)
	defer tick.Stop()
	defer debug.SetMemoryLimit(math.MaxInt64)
	for limit := int64(0); ctx.Err() == nil; {
		metrics.Read(need)
		live, rest := int64(need[0].Value.Uint64()), int64(0)
		for _, s := range need[1:] {
			rest += int64(s.Value.Uint64())
		}
		if next := limitFor(usual, live, rest); next != limit {
			debug.SetMemoryLimit(next)
			limit = next
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// limitFor leaves limitRoom in any case.
func limitFor(usual, live, rest int64) int64 {
	return max(usual, live+live*limitRoom/100+rest)
}
