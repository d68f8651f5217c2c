package simulation

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// play runs a schedule and fails with its trace where an invariant is broken.
func play(t *testing.T, seed uint64) Result {
	t.Helper()
	r := Run(seed, None, nil)
	if len(r.Findings) > 0 {
		trace := &Trace{}
		again := Run(seed, None, trace)
		var text bytes.Buffer
		require.NoError(t, trace.Write(&text))
		require.Equal(t, r.Findings, again.Findings, "the same seed gave another schedule")
		require.Empty(t, r.Findings, "seed %d\n%s", seed, text.String())
	}
	return r
}

func TestSchedules(t *testing.T) {
	var posts, faults int
	for seed := uint64(1); seed <= 2000; seed++ {
		r := play(t, seed)
		posts, faults = posts+r.Counts.Posts, faults+r.Counts.Faults
	}
	require.Greater(t, posts, 2000)
	require.Greater(t, faults, 2000)
}

func TestASeedGivesItsScheduleAgain(t *testing.T) {
	for seed := uint64(1); seed <= 50; seed++ {
		first, second := &Trace{}, &Trace{}
		Run(seed, None, first)
		Run(seed, None, second)
		require.Equal(t, first.lines, second.lines, "seed %d", seed)
	}
}
