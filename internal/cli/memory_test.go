package cli

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

func TestOnlyMuchSpareMemoryIsGivenBack(t *testing.T) {
	require.True(t, spare(450<<20, 860<<20), "after an import of a million")
	require.False(t, spare(450<<20, 700<<20))
	require.False(t, spare(8<<20, 70<<20))
	require.True(t, spare(8<<20, 80<<20))
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
