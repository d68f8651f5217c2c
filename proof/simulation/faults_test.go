package simulation

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every kind of fault strikes, and those of the leaders strike writes and checks.
func TestEveryFaultStrikes(t *testing.T) {
	reached := Search{Seed: 1, Schedules: 1500, Parallel: 2}.Run(t.Context()).Reached
	for f := FaultLostRequest; f <= lastFault; f++ {
		var steps []string
		for s := StepIdle; s <= StepTrim; s++ {
			if reached.Has(f, s) {
				steps = append(steps, s.String())
			}
		}
		require.NotEmpty(t, steps, "%s never struck", f)
		t.Log(f, "at", strings.Join(steps, ", "))
	}
	for _, f := range []Fault{FaultLeaderStops, FaultLeaderSilent} {
		for _, s := range []Step{StepMark, StepCheck, StepNote, StepRecord, StepLetter, StepPublish, StepLookup} {
			require.True(t, reached.Has(f, s), "%s never at %s", f, s)
		}
	}
	for _, s := range []Step{StepCheck, StepGate, StepPost, StepRecord} {
		require.True(t, reached.Has(FaultClock, s), "no clock jumps at %s", s)
	}
}

// A leader stops in the middle of a batch: of the writes that are under way one is stored
// and not confirmed, another is lost.
func TestALeaderStopsBetweenTheWritesOfABatch(t *testing.T) {
	for seed := uint64(1); seed < 400; seed++ {
		reached := Run(seed, None, nil).Reached
		if reached.Has(FaultLeaderStops, StepRecord) && reached.Has(FaultLeaderSilent, StepRecord) {
			return
		}
	}
	t.Fatal("in no schedule")
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
