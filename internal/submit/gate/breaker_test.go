package gate

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBreakerWindow(t *testing.T) {
	cfg := Config{BreakerRatio: 0.5, BreakerMin: 20, BreakerWindow: 10 * time.Second}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := newBreaker(cfg)
	for range 9 {
		require.False(t, b.record(at, true), "too few to judge")
	}
	require.True(t, b.record(at, true), "ten failures and nothing else")
	b = newBreaker(cfg)
	for range 100 {
		b.record(at, false)
	}
	for i := range 90 { // nine failures to each success
		for range 9 {
			opened := b.record(at.Add(time.Second), true)
			bad, all := 0, 0
			for _, c := range b.counts {
				bad, all = bad+c.failed, all+c.all
			}
			require.Equal(t, bad*2 >= all, opened, "round %d", i)
		}
		b.record(at.Add(time.Second), false)
	}
	b = newBreaker(cfg)
	for range 1000 {
		b.record(at, false)
	}
	for range 19 {
		require.False(t, b.record(at, true))
	}
	require.True(t, b.record(at, true), "twenty in a row")
	b = newBreaker(cfg)
	for range 9 {
		b.record(at, true)
	}
	require.False(t, b.record(at.Add(11*time.Second), true), "the window has moved on")
	require.False(t, b.record(at.Add(-time.Hour), true), "a clock that is set back breaks nothing")
	cfg.BreakerRatio = 0
	b = newBreaker(cfg)
	for range 1000 {
		require.False(t, b.record(at, true))
	}
}

func TestFailuresAreCountedByCause(t *testing.T) {
	var f failures
	now := time.Unix(1e9, 0)
	f.add(now.Add(-time.Hour), Signal{Cause: "old", Body: "old"})
	for i := range 9 {
		f.add(now, Signal{Cause: []string{"a", "b", "c", "d", "e"}[i%5], Body: fmt.Sprint(i)})
	}
	f.add(now, Signal{Cause: "d"})
	require.Equal(t, "d (3 times), a (2 times), b (2 times), 2 other causes; the last answer begins: 8", f.summary(now.Add(-time.Minute)))
	for range 2 * maxFailures {
		f.add(now, Signal{Cause: "z"})
	}
	require.Equal(t, fmt.Sprintf("z (%d times)", maxFailures), f.summary(now))
}
