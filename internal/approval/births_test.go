package approval

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// R5: what a person asked for is about the results that were stored then. If their stream was made again
// meanwhile, a newer record may have an earlier sequence: nothing is done, and the journal says why.
func TestR5AnActIsAboutTheResultsThatItsPersonKnew(t *testing.T) {
	for name, about := range map[string]func(r *rig) journal.About{
		"one order": func(*rig) journal.About { return resolveA1 },
		"a group": func(r *rig) journal.About {
			return r.aboutLetters(journal.Resolve, map[string]string{"as": "accepted"}, map[string][]string{"batch": {"march"}})
		},
		"a replay": func(r *rig) journal.About {
			return r.aboutLetters(journal.Replay, map[string]string{"resubmit-unknown": "true"}, map[string][]string{"batch": {"march"}})
		},
	} {
		for _, again := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				r := newActRig(t, "A-1", "A-2")
				id := r.asks(about(r), login("anna"))
				_, err := r.approvesAct(id, login("bob"))
				require.NoError(t, err)
				stay := r.letters()
				queuetest.Remake(t, r.broker.Server, false, "ORDERS_RESULTS")
				if again {
					r.doubts("A-1") // its record is the first of the new stream
					stay++
				}
				r.carries()
				require.Empty(t, r.waiting())
				result := r.act(id).Result
				require.Equal(t, journal.Failed, result.End)
				require.Contains(t, result.Error, "the results were made again since")
				require.Equal(t, stay, r.letters())
				require.Zero(t, r.queued())
				if again {
					require.Equal(t, []any{order.OutcomeUnknown, ""}, []any{r.record("A-1").Outcome(), r.record("A-1").By})
				}
			})
		}
	}
}

// Results that were restored are those that she knew.
func TestR5AnActHoldsForRestoredResults(t *testing.T) {
	r := newActRig(t, "A-1")
	record := r.record("A-1")
	id := r.asks(resolveA1, login("anna"))
	_, err := r.approvesAct(id, login("bob"))
	require.NoError(t, err)
	queuetest.Remake(t, r.broker.Server, true, "ORDERS_RESULTS")
	_, err = r.q.Store().PutRecord(t.Context(), order.Token("A-1"), record, 0)
	require.NoError(t, err)
	r.carries()
	require.Equal(t, journal.Done, r.act(id).Result.End)
	require.Equal(t, order.OutcomeAccepted, r.record("A-1").Outcome())
}

// What an act would do is still shown, so that somebody can refuse it.
func TestR5APreviewOfAnActAboutFormerResults(t *testing.T) {
	for _, kind := range []journal.Kind{journal.Resolve, journal.Replay} {
		r := newActRig(t, "A-1", "A-2")
		id := r.asks(r.aboutLetters(kind, map[string]string{"as": "accepted", "resubmit-unknown": "true"}, map[string][]string{"batch": {"march"}}), login("anna"))
		queuetest.Remake(t, r.broker.Server, false, "ORDERS_RESULTS")
		d, err := DeedOf(r.q, r.act(id).About, settle.Person{})
		require.NoError(t, err)
		tally, err := deadletter.Preview(t.Context(), r.q, d.Group, d.Deed, d.Options)
		require.NoError(t, err)
		require.Equal(t, map[deadletter.Fate]int{}, tally.Fates, "no record names their letters any more")
	}
}
