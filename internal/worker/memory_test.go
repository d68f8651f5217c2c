package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSmallHeapsMayGrowLargeOnesLess(t *testing.T) {
	require.Greater(t, gcPercent(64), 300)
	require.Equal(t, 135, gcPercent(2000))
	require.Equal(t, 45, gcPercent(10_000))
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
