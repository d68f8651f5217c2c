package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatGrewIsNamed: a measure may rise by noise and by a share of its level; what
// leaks as fast as the planted leak rises by more.
func TestWhatGrewIsNamed(t *testing.T) {
	start := map[string]float64{"worker-1 live heap MiB": 14, "worker-1 goroutines": 80, "worker-2 goroutines": 30, "all disk MiB": 1000, "all p99 ms": 60}
	end := map[string]float64{"worker-1 live heap MiB": 22, "worker-1 goroutines": 300, "worker-2 goroutines": 90, "all disk MiB": 1080, "all p99 ms": 300}
	v := &soakVerdict{Orders: 1, Measures: compareMeasures(start, end)}
	require.EqualError(t, v.err(false), "grew: worker-1 goroutines")
	require.NoError(t, v.err(true), "a leak was planted")
	v.Measures = compareMeasures(start, start)
	require.NoError(t, v.err(false))
	require.ErrorContains(t, v.err(true), "a leak was planted, and nothing grew")
}

func TestALostOrderFailsASoak(t *testing.T) {
	require.ErrorContains(t, (&soakVerdict{Orders: 3, Lost: 1}).err(false), "lost 1")
	require.ErrorContains(t, (&soakVerdict{}).err(false), "shows nothing")
}
