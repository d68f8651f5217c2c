package simulation

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// mustHold plays a schedule. If an invariant breaks, it fails with the trace.
func mustHold(t *testing.T, s Schedule) Result {
	t.Helper()
	r := Play(s, None, nil)
	if len(r.Findings) > 0 {
		trace := &Trace{}
		again := Play(s, None, trace)
		var text bytes.Buffer
		require.NoError(t, trace.Write(&text))
		require.Equal(t, r.Findings, again.Findings, "the same schedule gave another result")
		require.Empty(t, r.Findings, "schedule %s\n%s", s, text.String())
	}
	return r
}

func TestSchedules(t *testing.T) {
	var sum Counts
	for seed := uint64(1); seed <= 1500; seed++ {
		sum.add(mustHold(t, Schedule{Seed: seed}).Counts)
	}
	require.Greater(t, sum.Posts, 1500)
	require.Greater(t, sum.Faults, 1500)
}

func TestSchedulesAboutCorrections(t *testing.T) {
	var sum Counts
	for seed := uint64(1); seed <= 500; seed++ {
		sum.add(mustHold(t, Schedule{Seed: seed, Corrections: true}).Counts)
	}
	require.Greater(t, sum.Intents, 3*sum.Orders, "each order is corrected")
}

func TestASeedGivesItsScheduleAgain(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		first, second := &Trace{}, &Trace{}
		Run(seed, None, first)
		Run(seed, None, second)
		require.Equal(t, first.lines, second.lines, "seed %d", seed)
	}
}

func TestASearchCountsEverySchedule(t *testing.T) {
	s := Search{Seed: 1, Schedules: 200, Parallel: 2}.Run(t.Context())
	require.Equal(t, 200, s.Schedules)
	require.Empty(t, s.Failed)
	var alone Counts
	for seed := uint64(1); seed <= 200; seed++ {
		alone.add(Run(seed, None, nil).Counts)
	}
	require.Equal(t, alone, s.Counts)
}
