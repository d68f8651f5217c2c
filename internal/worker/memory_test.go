package worker

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSmallHeapsMayGrowLargeOnesLess(t *testing.T) {
	require.Equal(t, 400, gcPercent(0)) // before the first collection
	require.Equal(t, 400, gcPercent(8<<20))
	require.Equal(t, 100, gcPercent(32<<20))
	require.Equal(t, 80, gcPercent(40<<20))
	require.Equal(t, leastGC, gcPercent(400<<20))
}

// An embedded broker's heap is hundreds of MB during an import and a few MB afterwards.
func TestTheCollectorFollowsTheLiveHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	tuneMemory()
	percent := func() uint64 {
		runtime.GC()
		return read("/gc/gogc:percent")
	}
	require.Eventually(t, func() bool { return percent() > leastGC }, time.Minute, time.Millisecond)
	kept := bytes.Repeat([]byte{1}, 200<<20)
	require.Eventually(t, func() bool { return percent() == leastGC }, time.Minute, time.Millisecond)
	runtime.KeepAlive(kept)
	kept = nil
	require.Eventually(t, func() bool { return percent() > leastGC }, time.Minute, time.Millisecond)
}

// More orders than slots are in hand as long as the API would wait for the broker.
func TestPrefetch(t *testing.T) {
	for _, c := range []struct {
		submission, settling time.Duration
		slots                int
		want                 int
	}{
		{0, 0, 64, 0}, // not known yet
		{time.Millisecond, time.Millisecond, 64, 128},
		{100 * time.Microsecond, time.Millisecond, 64, 128},
		{time.Millisecond, 30 * time.Millisecond, 64, 441}, // a disk
		{time.Millisecond, 30 * time.Millisecond, 1, 0},
		{100 * time.Millisecond, 10 * time.Millisecond, 64, 12},
		{100 * time.Millisecond, 200 * time.Millisecond, 2000, 448},
		{5 * time.Second, 10 * time.Millisecond, 64, 0},
	} {
		p := prefetch{slots: c.slots}
		p.submit.note(c.submission)
		p.settling.note(c.settling)
		require.Equal(t, c.want, p.now(), "%+v", c)
	}
}
