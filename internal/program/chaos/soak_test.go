package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/program/reconcile"
)

func TestGrowthIsSeen(t *testing.T) {
	var at []time.Duration
	var flat, leaky []sample
	for i := range 30 {
		at = append(at, time.Duration(i)*time.Minute)
		flat = append(flat, sample{50 + float64(i%3), 80, 20})
		leaky = append(leaky, sample{50 + float64(i)*3, 80 + float64(i), 20 + float64(i)})
	}
	for _, f := range figures("w", at, flat) {
		require.False(t, f.Grows, f)
		require.InDelta(t, 0, f.PerHour, 1, f.Measure)
	}
	grown := figures("w", at, leaky)
	for _, f := range grown {
		require.True(t, f.Grows, f)
	}
	require.Equal(t, soakFigure{Worker: "w", Measure: "goroutines", First: 80, Last: 109, Min: 80, Max: 109, PerHour: grown[1].PerHour,
		FloorBefore: 80, FloorAfter: 95, Grows: true}, grown[1])
	require.InDelta(t, 60, grown[1].PerHour, 1e-6, "one a minute")
	s := &summary{Confirmed: 1, Books: &reconcile.Books{Balanced: true, CreatedOnce: 1}}
	require.NoError(t, s.verdict())
	s.Soak = grown
	require.ErrorContains(t, s.verdict(), "grow")
}
