package settle_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

func TestResolve(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	deadLetter(t, q, "A-1", exhaustedInDoubt())

	publish(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b2:1"})
	_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
	require.ErrorIs(t, err, settle.ErrPending)
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work)
	_, err = q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	requireDrained(t, q)

	rec, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, anna)
	require.NoError(t, err)
	require.Equal(t, order.OutcomeRejected, rec.Outcome())
	require.Equal(t, "anna", rec.By)
	require.False(t, rec.SettledAt.IsZero())
	require.Equal(t, "asked the API's operator", rec.Interventions[0].Note)
	requireNoLetter(t, q, "A-1")
	requireBalanced(t, q)

	rec, err = q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, anna)
	require.NoError(t, err)
	require.Len(t, rec.Interventions, 1, "the same word again changes nothing")
	rec, err = q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, settle.Person{Name: "ben"})
	require.NoError(t, err)
	require.Equal(t, "ben", rec.By)
	require.Len(t, rec.Interventions, 2)

	publish(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b3:1"})
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkRepeat, d.Work, "an accepted order is not posted again")
	_, err = q.Worker.Repeat(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	requireDrained(t, q)
	requireBalanced(t, q)
}

func TestResolveRefusals(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	_, err := q.Operator.Resolve(t.Context(), "nobody", "", order.OutcomeAccepted, anna)
	require.ErrorIs(t, err, settle.ErrNoResult)
	deadLetter(t, q, "A-1", rejected())
	_, err = q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
	require.ErrorIs(t, err, settle.ErrNotInDoubt)
	require.Equal(t, order.OutcomeRejected, letterOf(t, q, "A-1").Outcome)
	_, err = q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeExpired, anna)
	require.ErrorContains(t, err, "expired")
}

// TestResolveCut: the record is written and the letter not yet removed. It counts for nothing.
func TestResolveCut(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	l := deadLetter(t, q, "A-1", exhaustedInDoubt())
	store := &unanswered{Store: q.Store(), removal: settle.ErrUnreachable}
	q.Ledger.ExportSetStore(store)
	_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeAccepted, anna)
	require.NoError(t, err)
	requireLetters(t, q, 1)
	requireNoLetter(t, q, "A-1")
	requireBalanced(t, q)
	require.Equal(t, settle.ReplayGone, replay(t, q, l, settle.ReplayOptions{ResubmitUnknown: true}))
	gone, err := q.Operator.Drop(t.Context(), l, anna)
	require.NoError(t, err)
	require.True(t, gone)
	gone, err = q.Operator.ResolveLetter(t.Context(), l, order.OutcomeRejected, anna)
	require.NoError(t, err)
	require.True(t, gone)
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome())
}

func TestDrop(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	l := deadLetter(t, q, "A-1", rejected())
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b2:1"})
	_, err := q.Operator.Drop(t.Context(), l, anna)
	require.ErrorIs(t, err, settle.ErrPending)
	settleAs(t, q, pull(t, q, 1)[0], rejected())
	requireDrained(t, q)

	gone, err := q.Operator.Drop(t.Context(), l, anna)
	require.NoError(t, err)
	require.True(t, gone, "a newer letter is not hit")
	l = letterOf(t, q, "A-1")
	gone, err = q.Operator.Drop(t.Context(), l, anna)
	require.NoError(t, err)
	require.False(t, gone)
	requireNoLetter(t, q, "A-1")
	requireBalanced(t, q)
	entry, err := q.Ledger.Lookup(t.Context(), "A-1")
	require.NoError(t, err)
	require.Equal(t, "rejected", entry.Record.Word)
	require.Equal(t, "anna", entry.Record.Interventions[0].By)

	// A later failure of the same order_no is filed as ever.
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b3:1"})
	settleAs(t, q, pull(t, q, 1)[0], rejected())
	requireDrained(t, q)
	require.Equal(t, "b3:1", letterOf(t, q, "A-1").IntentID)
	requireBalanced(t, q)
}

// TestDropCut: the record is written and the letter not yet removed. It counts for nothing.
func TestDropCut(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	l := deadLetter(t, q, "A-1", exhaustedInDoubt())
	store := &unanswered{Store: q.Store(), removal: settle.ErrUnreachable}
	q.Ledger.ExportSetStore(store)
	gone, err := q.Operator.Drop(t.Context(), l, anna)
	require.NoError(t, err)
	require.False(t, gone)
	requireLetters(t, q, 1)
	requireNoLetter(t, q, "A-1")
	gone, err = q.Operator.Drop(t.Context(), l, anna)
	require.NoError(t, err)
	require.True(t, gone)
	require.Len(t, lookup(t, q, "A-1").Interventions, 1)
	requireBalanced(t, q)
	q.Ledger.ExportSetStore(store.Store)
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b2:1"})
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work, "an unknown order stays protected")
	_, err = q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	requireDrained(t, q)
	require.Equal(t, "b2:1", letterOf(t, q, "A-1").IntentID)
	require.False(t, lookup(t, q, "A-1").Dropped, "nobody dropped this intent's letter, and an audit must miss it if it is gone")
	requireBalanced(t, q)
}

// A letter that somebody removed by hand can be dropped, so that the books balance again.
func TestDropOfALetterThatIsGone(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	l := deadLetter(t, q, "A-1", rejected())
	removeLetter(t, q, l)
	requireNoLetter(t, q, "A-1")
	a, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.False(t, a.Balanced())
	gone, err := q.Operator.Drop(t.Context(), l, anna)
	require.NoError(t, err)
	require.False(t, gone)
	requireBalanced(t, q)
}

// A person looked into one doubt, and says so. If another one came since, her word
// does not cover it, however early her command began. Found by the simulation.
func TestAWordNamesTheResultThatThePersonSaw(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	deadLetter(t, q, "A-1", exhaustedInDoubt())
	seen, err := q.Ledger.Lookup(t.Context(), "A-1")
	require.NoError(t, err)
	_, err = q.Operator.Resolve(t.Context(), "A-1", seen.Record.WriteID, order.OutcomeRejected, anna)
	require.NoError(t, err)
	again, err := q.Operator.Resolve(t.Context(), "A-1", seen.Record.WriteID, order.OutcomeRejected, anna)
	require.NoError(t, err, "the same command again")
	require.Len(t, again.Interventions, 1)

	publish(t, q, intent("A-1", "b9:1"))
	settleAs(t, q, pull(t, q, 1)[0], exhaustedInDoubt())
	requireDrained(t, q)
	_, err = q.Operator.Resolve(t.Context(), "A-1", seen.Record.WriteID, order.OutcomeRejected, anna)
	require.ErrorIs(t, err, settle.ErrReplaced)
	require.Equal(t, order.OutcomeUnknown, lookup(t, q, "A-1").Outcome())
}

// R5: a stream of results that was made again gives sequences again. The write id is another one.
func TestR5AWordIsNotAboutAnotherRecordOfTheSameSequence(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	deadLetter(t, q, "A-1", exhaustedInDoubt())
	seen, err := q.Ledger.Lookup(t.Context(), "A-1")
	require.NoError(t, err)
	queuetest.Remake(t, s.Server, false, "ORDERS_RESULTS")
	publish(t, q, intent("A-1", "b9:1"))
	settleAs(t, q, pull(t, q, 1)[0], exhaustedInDoubt())
	requireDrained(t, q)
	now, err := q.Ledger.Lookup(t.Context(), "A-1")
	require.NoError(t, err)
	require.Equal(t, seen.Seq, now.Seq)
	_, err = q.Operator.Resolve(t.Context(), "A-1", seen.Record.WriteID, order.OutcomeRejected, anna)
	require.ErrorIs(t, err, settle.ErrReplaced)
	_, err = q.Operator.Resolve(t.Context(), "A-1", now.Record.WriteID, order.OutcomeRejected, anna)
	require.NoError(t, err)
}

// The same with a permission: a person permits one letter to be sent again, and
// meanwhile a colleague settles it and another intent is in doubt.
func TestAPermissionIsAboutTheLetterThatThePersonSaw(t *testing.T) {
	for name, end := range map[string]settle.Replay{"the other intent has ended": settle.ReplayGone, "the other intent is stored": settle.ReplayPending} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
			l := deadLetter(t, q, "A-1", exhaustedInDoubt())
			slow.Ledger.ExportSetStore(&slowWriter{Store: slow.Store(), meanwhile: func() {
				_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, settle.Person{Name: "ben"})
				require.NoError(t, err)
				publish(t, q, intent("A-1", "b9:1"))
				if end == settle.ReplayGone {
					settleAs(t, q, pull(t, q, 1)[0], exhaustedInDoubt())
					requireDrained(t, q)
				}
			}})
			got, err := slow.Operator.Replay(t.Context(), l, settle.ReplayOptions{ResubmitUnknown: true, Person: anna})
			require.NoError(t, err)
			require.Equal(t, end, got)
			require.Empty(t, lookup(t, q, "A-1").AllowedFor)
			if end == settle.ReplayGone {
				require.Equal(t, "b9:1", letterOf(t, q, "A-1").IntentID)
				requireBalanced(t, q)
			}
		})
	}
}

// slowWriter's first write of a record has no answer before all of meanwhile.
type slowWriter struct {
	settle.Store
	stored    bool
	meanwhile func()
}

func (w *slowWriter) PutRecord(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
	meanwhile := w.meanwhile
	w.meanwhile = nil
	if meanwhile == nil {
		return w.Store.PutRecord(ctx, token, r, expect)
	}
	if w.stored {
		if seq, err := w.Store.PutRecord(ctx, token, r, expect); err != nil {
			return seq, err
		}
	}
	meanwhile()
	return 0, settle.ErrStale
}
