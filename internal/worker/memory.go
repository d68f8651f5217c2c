package worker

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The live heap is about heapBase for the program, and heapPerOrder for each order in
// flight with its connection and goroutine.
const (
	heapBase     = 8 << 20
	heapPerOrder = 8 << 10
	// heapRoom is how much may be allocated beyond that before the collector runs.
	heapRoom = 32 << 20
	// minPercent is the lowest GOGC value.
	minPercent = 50
)

// With limitFrom orders in flight or more, the program gets a memory limit, which
// makes Go return idle memory such as grown stacks and the buffers of a burst. The
// limit is what the program and the orders need, in bytes of all memory that Go
// manages.
const (
	limitFrom     = 1000
	limitBase     = 24 << 20
	limitPerOrder = 18 << 10
	// limitRoom is how much of the live heap, in percent, may at least be allocated
	// below the limit.
	limitRoom = 25
	// limitEvery is how often the limit is adapted to the need.
	limitEvery = 250 * time.Millisecond
)

// tuneMemory lets the heap grow by heapRoom between two collections. With Go's
// default, a worker with few orders in flight would collect many times a second, and
// one with thousands would hold as much garbage as live data. With thousands,
// tuneMemory also sets a memory limit until ctx ends. It does nothing if GOGC or
// GOMEMLIMIT is set.
func tuneMemory(ctx context.Context, concurrency int) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.SetGCPercent(gcPercent(concurrency))
	if concurrency >= limitFrom {
		go limitMemory(ctx, limitBase+int64(concurrency)*limitPerOrder)
	}
}

func gcPercent(concurrency int) int {
	return max(minPercent, 100*heapRoom/(heapBase+concurrency*heapPerOrder))
}

// limitMemory sets the memory limit and raises it while larger orders need more. Close
// to the limit, Go would collect all the time.
func limitMemory(ctx context.Context, usual int64) {
	need := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"}, {Name: "/memory/classes/metadata/other:bytes"}, {Name: "/memory/classes/other:bytes"}}
	tick := time.NewTicker(limitEvery)
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

// limitFor returns the limit, with at least limitRoom left for allocations.
func limitFor(usual, live, rest int64) int64 {
	return max(usual, live+live*limitRoom/100+rest)
}
