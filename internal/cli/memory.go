package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// A heap that lives on heapBase may grow by heapRoom between two collections. In bytes.
const (
	heapBase = 8 << 20
	heapRoom = 32 << 20
)

// leastGC bounds what a large heap costs: garbage is at most 45 % of what lives. Far
// below that the collector takes much of a processor.
const leastGC = 45

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
	if spare(liveHeap(), read("/memory/classes/total:bytes")-read("/memory/classes/heap/released:bytes")) {
		giveBack().Reset(quiet)
	}
}

// A burst is over when nothing was collected for so long.
const quiet = 15 * time.Second

// giveBack collects what a burst has left, and returns it to the system. Without it, a heap
// that does not grow any more keeps its garbage for two minutes, and its memory for longer.
var giveBack = sync.OnceValue(func() *time.Timer {
	t := time.AfterFunc(time.Hour, debug.FreeOSMemory)
	t.Stop()
	return t
})

// spare reports whether a process holds much more memory than what lives in it.
func spare(live, held uint64) bool { return held > live+live/2+64<<20 }

// liveHeap returns what the last collection found alive, and the stacks, which the
// percentage counts, too.
func liveHeap() uint64 { return read("/gc/heap/live:bytes") + read("/gc/scan/stack:bytes") }

func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func gcPercent(live uint64) int { return max(leastGC, int(100*heapRoom/max(live, heapBase))) }
