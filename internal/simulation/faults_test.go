package simulation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every kind of fault strikes, and those of the leaders strike writes and checks.
func TestEveryFaultStrikes(t *testing.T) {
	known := Search{Seed: 1, Schedules: 1500, Parallel: 2}.Run(t.Context()).Coverage
	struck := func(f Fault, s Step) bool { return known.has(uint32(f)<<5 | uint32(s)) }
	for f := FaultLostRequest; f <= lastFault; f++ {
		var steps []string
		for s := StepIdle; s <= StepPause; s++ {
			if struck(f, s) {
				steps = append(steps, s.String())
			}
		}
		require.NotEmpty(t, steps, "%s never struck", f)
		t.Log(f, "at", strings.Join(steps, ", "))
	}
	for _, f := range []Fault{FaultLeaderStops, FaultLeaderSilent} {
		for _, s := range []Step{StepMark, StepCheck, StepNote, StepRecord, StepLetter, StepPublish, StepLookup} {
			require.True(t, struck(f, s), "%s never at %s", f, s)
		}
	}
	for _, s := range []Step{StepCheck, StepGate, StepPost, StepRecord} {
		require.True(t, struck(FaultClock, s), "no clock jumps at %s", s)
	}
}

// A leader stops in the middle of a batch: of the writes that are under way one is stored
// and not confirmed, another is lost.
func TestALeaderStopsBetweenTheWritesOfABatch(t *testing.T) {
	known := Search{Seed: 1, Schedules: 400, Parallel: 2}.Run(t.Context()).Coverage
	pair := func(a, b Fault) uint32 {
		return firstPair + (uint32(a)<<5|uint32(StepRecord))<<strikeBits + (uint32(b)<<5 | uint32(StepRecord))
	}
	require.True(t, known.has(pair(FaultLeaderStops, FaultLeaderSilent)) || known.has(pair(FaultLeaderSilent, FaultLeaderStops)))
}

// Workers of an older version work beside those of this one, refuse conflicts in their own
// way, and break nothing.
func TestOlderWorkersWorkBesideNewOnes(t *testing.T) {
	older, newer := 0, 0
	for seed := uint64(1); seed < 400; seed++ {
		trace := &Trace{}
		s := Schedule{Seed: seed, Edits: []Edit{{Op: editPlan, Field: "Workers", Value: 2}, {Op: editPlan, Field: "Older", Value: 1}}}
		require.Empty(t, Play(s, None, trace).Findings, "%s", s)
		for _, l := range trace.lines {
			if strings.Contains(l.text, "record ") && strings.Contains(l.text, "accepted by w0") {
				older++
			}
			if strings.Contains(l.text, "record ") && strings.Contains(l.text, "accepted by w1") {
				newer++
			}
		}
	}
	require.Positive(t, older)
	require.Positive(t, newer)
}

// A person acts on a page that shows a letter which is gone or was replaced by then, and
// settle refuses.
func TestAStalePageIsRefused(t *testing.T) {
	acted, refused := 0, 0
	for seed := uint64(1); seed < 400; seed++ {
		trace := &Trace{}
		Play(Schedule{Seed: seed, Edits: []Edit{{Op: editPlan, Field: "Pages", Value: 2}}}, None, trace)
		for _, l := range trace.lines {
			if !strings.Contains(l.text, "acts on the page") {
				continue
			}
			acted++
			if strings.Contains(l.text, "it is gone") {
				refused++
			}
		}
	}
	require.Positive(t, acted)
	require.Positive(t, refused)
}
