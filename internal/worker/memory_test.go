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
