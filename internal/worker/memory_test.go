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
	require.Equal(t, leastPercent, gcPercent(10_000))
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

// More orders than are in flight are in hand only as far as they are over in an
// instant.
func TestSpareSlots(t *testing.T) {
	for _, c := range []struct {
		visit time.Duration
		slots int
		want  int
	}{
		{0, 64, 0}, // not known yet
		{time.Millisecond, 64, 63},
		{time.Millisecond, 1, 0},
		{100 * time.Millisecond, 64, 16},
		{100 * time.Millisecond, 2000, 500},
		{5 * time.Second, 64, 0},
	} {
		var p tempo
		if c.visit > 0 {
			p.note(c.visit)
		}
		require.Equal(t, c.want, p.spare(c.slots), "%s, %d slots", c.visit, c.slots)
	}
}
