package simulation

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// play runs a schedule. If an invariant breaks, it fails with the trace.
func play(t *testing.T, seed uint64) Result {
	t.Helper()
	return playOn(t, seed, replicated(seed, None))
}

func playOn(t *testing.T, seed uint64, replicas bool) Result {
	t.Helper()
	r := run(seed, None, nil, replicas, nil)
	if len(r.Findings) > 0 {
		trace := &Trace{}
		again := run(seed, None, trace, replicas, nil)
		var text bytes.Buffer
		require.NoError(t, trace.Write(&text))
		require.Equal(t, r.Findings, again.Findings, "the same seed gave another schedule")
		require.Empty(t, r.Findings, "seed %d\n%s", seed, text.String())
	}
	return r
}

func TestSchedules(t *testing.T) {
	var sum Counts
	for seed := uint64(1); seed <= 1500; seed++ {
		sum.add(play(t, seed).Counts)
	}
	require.Greater(t, sum.Posts, 1500)
	require.Greater(t, sum.Faults, 1500)
}

// These schedules once exposed a mistake in the workers' code or in its model.
func TestSchedulesThatOnceFailed(t *testing.T) {
	for seed, showed := range map[uint64]string{
		898:          "an outcome was written long after the claim was over",
		1439:         "a panic's note was refused, and the gate stayed open",
		8129:         "an outcome was written long after the claim was over",
		8241:         "an outcome was written long after the claim was over",
		101921:       "the note of a delivery that did nothing replaced an attempt's",
		103350:       "a late acceptance left its letter (known; see Counts.Leftovers)",
		1011867:      "the person did not wait for a request on its way (the model's mistake)",
		1045083:      "a person's word removed a later intent's letter",
		1127020:      "a delivery that did nothing explained another one's number",
		2068655:      "an outcome was written after the documented pause (known; see Counts.LateOutcomes)",
		2001365693:   "a process woke and gave back what was another's by then: the documented pause (the oracle's mistake; see Counts.LateHandBacks)",
		2002309281:   "the one from whom it was taken that way gave it back as well (the oracle's mistake)",
		3000545884:   "a NAK to a broker that had forgotten the delivery took the order from its next owner",
		2000141816:   "one order that was given up opened the gate, while the result of another was still refused",
		40453787:     "a process frozen twice woke before it heard that the broker was gone (the model's mistake)",
		40607941:     "the same, so that its late outcome was not known for one (the model's mistake)",
		900848869:    "the same, a worker having died on the way (known; see Counts.Leftovers)",
		800465480:    "a late acceptance left its letter, the broker not having answered once",
		700657584:    "a person settled an order as not created, and a frozen worker posted it after that (the oracle's mistake)",
		600212740:    "an overlap after a start was not known for one, its process having lost its connection since (the oracle's mistake)",
		500482499:    "a person settled an order before it was in doubt (the model's mistake)",
		987654485352: "one permission of a person let park post again after an attempt whose worker was lost",
		987655671921: "a worker that was given an order twice settled it twice",
		5550073917:   "an intent whose note gave way to an earlier intent's late acceptance was acknowledged and never counted",
		40972074:     "one posted by permission could not know of another's late attempt (the oracle's mistake)",
	} {
		t.Run(showed, func(t *testing.T) { playOn(t, seed, false) })
	}
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
