package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// A heap that lives on heapBase may grow by heapRoom between two collections. In bytes.
const (
	heapBase = 8 << 20
	heapRoom = 32 << 20
)

// leastGC bounds what a large heap costs: garbage is at most 70 % of what lives. Far
// below that the collector takes much of a processor.
const leastGC = 70

// usualGC is the percentage of a program that set none.
const usualGC = 100

// memoryShare of a cgroup's limit is for what Go's runtime uses. The rest is for what the
// kernel counts beside it, such as batches that the broker stages in /dev/shm.
const memoryShare = 0.8

// tuneMemory lets a small heap grow by heapRoom between two collections, and a large
// one by leastGC, in a cgroup with a limit up to that. With Go's default, which is as much as
// lives, a worker with few orders in flight would collect many times a second, and one with
// the broker inside would double its hundreds of MB. GOGC or GOMEMLIMIT, where set, stay, and so
// does the percentage that a program has set for itself.
var tuneMemory = sync.OnceFunc(func() {
	_, _ = memlimit.Set(memlimit.WithRatio(memoryShare)) // it fails where limits cannot be read
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" && read("/gc/gogc:percent") == usualGC {
		followHeap()
	}
})

// followHeap sets the percentage for the heap of now, and again after each collection.
func followHeap() {
	percent := gcPercent(liveHeap())
	if now := read("/gc/gogc:percent"); now != uint64(percent) {
		debug.SetGCPercent(percent)
	}
	type sentinel struct{ _ [64]byte } // too large to share its memory with an object that lives on
	runtime.AddCleanup(new(sentinel), func(struct{}) { go followHeap() }, struct{}{})
}

// liveHeap returns what the last collection found alive, and the stacks, which the
// percentage counts, too.
func liveHeap() uint64 { return read("/gc/heap/live:bytes") + read("/gc/scan/stack:bytes") }

func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func gcPercent(live uint64) int { return max(leastGC, int(100*heapRoom/max(live, heapBase))) }
