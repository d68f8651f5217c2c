package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSmallHeapsMayGrowLargeOnesLess(t *testing.T) {
	require.Greater(t, gcPercent(64), 300)
	require.Equal(t, 135, gcPercent(2000))
	require.Equal(t, 100, gcPercent(10_000))
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
