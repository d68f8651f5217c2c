package worker

import (
	"context"
	"math"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSmallHeapsMayGrowLargeOnesLess(t *testing.T) {
	require.Greater(t, gcPercent(64), 300)
	require.Equal(t, 135, gcPercent(2000))
	require.Equal(t, minPercent, gcPercent(10_000))
}

// Orders that are larger than usual raise the limit, so that the
// live heap is not collected over and over.
func TestTheMemoryLimitFollowsTheNeed(t *testing.T) {
	const mb = 1 << 20
	require.EqualValues(t, 60*mb, limitFor(60*mb, 20*mb, 20*mb))
	require.EqualValues(t, 145*mb, limitFor(60*mb, 100*mb, 20*mb))
}

func TestTheMemoryLimitIsTakenBack(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); limitMemory(ctx, 1<<40) }()
	require.Eventually(t, func() bool { return debug.SetMemoryLimit(-1) == 1<<40 }, 10*time.Second, time.Millisecond)
	cancel()
	<-over
	require.EqualValues(t, math.MaxInt64, debug.SetMemoryLimit(-1))
}

// More orders than slots are in hand only with an API that answers within an instant.
func TestPrefetch(t *testing.T) {
	for _, c := range []struct {
		submission time.Duration
		slots      int
		want       int
	}{
		{0, 64, 0}, // not known yet
		{time.Millisecond, 64, 63},
		{time.Millisecond, 1, 0},
		{100 * time.Millisecond, 64, 16},
		{100 * time.Millisecond, 2000, 500},
		{5 * time.Second, 64, 0},
	} {
		var p latencyAverage
		if c.submission > 0 {
			p.note(c.submission)
		}
		require.Equal(t, c.want, p.prefetch(c.slots), "%s, %d slots", c.submission, c.slots)
	}
}
