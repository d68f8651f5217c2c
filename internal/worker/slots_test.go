package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The number of orders that may be in hand changes at any moment. A pull for none would be
// answered with an order that nobody waits for.
func TestAPullIsNeverForNoOrder(t *testing.T) {
	asked := 0
	s := newSlots(1, func() int { asked++; return asked % 2 }) // 1, 0, 1, 0, …
	for free := 2; free > 0; free-- {
		n, err := s.takeForPull(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, 1, n, "%d slots were free", free)
		s.pullDone(0)
		asked = 0
	}
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
