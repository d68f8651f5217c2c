package order

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestR6Admission goes through every outcome and note, for this intent, another
// one and one without an id, each permission, and each pair of bodies.
func TestR6Admission(t *testing.T) {
	require.Equal(t, Admission{}, Admit(nil, "i1", "a"))
	bodies := map[[2]string]Bodies{{"a", "a"}: SameBody, {"a", "b"}: OtherBody, {"", "a"}: NotComparable, {"a", ""}: NotComparable, {"", ""}: NotComparable}
	permissions := map[string]func(*Record){
		"none":            func(*Record) {},
		"for this intent": func(r *Record) { r.AllowedFor = "i1" },
		"for another one": func(r *Record) { r.AllowedFor = "i9" },
	}
	seen := make(map[Standing]int)
	for _, outcome := range append(Outcomes(), OutcomeNone) {
		for _, recorded := range []string{"i1", "i0"} {
			for _, id := range []string{"i1", ""} {
				for permission, allow := range permissions {
					for hashes, want := range bodies {
						last := &Record{IntentID: recorded, BodyHash: hashes[0]}
						last.SetOutcome(outcome)
						allow(last)
						got := Admit(last, id, hashes[1])
						require.Equal(t, want, got.Bodies)
						allowed := want == SameBody && permission == "for this intent" && id == "i1"
						require.Equal(t, standingOf(outcome, recorded == id, allowed), got.Standing,
							"%s of %s, permission %s, intent %q", last.Word, recorded, permission, id)
						seen[got.Standing]++
					}
				}
			}
		}
	}
	for s := SettledItself; s <= FailedBefore; s++ {
		require.Positive(t, seen[s], s)
	}
}

// standingOf is the table.
func standingOf(o Outcome, itself, allowed bool) Standing {
	if itself {
		return map[bool]Standing{true: OpenItself, false: SettledItself}[o == OutcomeNone]
	}
	before := map[Outcome]Standing{
		OutcomeNone: OpenBefore, OutcomeAccepted: AcceptedBefore, OutcomeUnknown: DoubtBefore,
		OutcomeRejected: FailedBefore, OutcomeExhausted: FailedBefore, OutcomeExpired: FailedBefore,
		OutcomeInvalid: FailedBefore, OutcomePoison: FailedBefore, OutcomeCancelled: FailedBefore,
	}
	if o == OutcomeUnknown && allowed {
		return AllowedBefore
	}
	return before[o]
}
