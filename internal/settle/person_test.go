package settle_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
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
	store := &unanswered{Store: q.Ledger.ExportStore(), removal: settle.ErrUnreachable}
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

// TestResolveLosesToAcceptance: a worker that was frozen after its POST wakes
// and records that the order exists. That outranks a person's word (R1).
func TestResolveLosesToAcceptance(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b1:1"})
	frozen := pull(t, q, 1)[0]
	late := q.Worker.ExportRecord(frozen, report(order.Accepted, frozen.History), order.Settlement{Action: order.ActMerge, Outcome: order.OutcomeAccepted})
	settleAs(t, q, frozen, exhaustedInDoubt())
	requireDrained(t, q)
	_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, anna)
	require.NoError(t, err)
	entry, err := q.Ledger.ExportWriteRecord(t.Context(), frozen.ExportToken(), settle.Entry{}, late)
	require.NoError(t, err)
	require.Equal(t, order.OutcomeAccepted, entry.Record.Outcome())
	require.Equal(t, "anna", entry.Record.Interventions[0].By, "what the person did is not forgotten")
	requireBalanced(t, q)
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
	store := &unanswered{Store: q.Ledger.ExportStore(), removal: settle.ErrUnreachable}
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
	a, err := books.Audit(t.Context(), q)
	require.NoError(t, err)
	require.False(t, a.Balanced())
	gone, err := q.Operator.Drop(t.Context(), l, anna)
	require.NoError(t, err)
	require.False(t, gone)
	requireBalanced(t, q)
}

// A person drops a letter and is held up. Meanwhile the same intent fails again.
// Its letter stays, and the record does not say that it was dropped. Found by
// the simulation.
func TestDropLeavesALaterLetterOfTheSameIntent(t *testing.T) {
	s := startBroker(t)
	q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
	l := deadLetter(t, q, "A-1", rejected())
	store := q.Ledger.ExportStore()
	late := &meanwhile{Store: slow.Ledger.ExportStore(), beforeIntent: func() {
		seq, err := store.PutLetter(t.Context(), "A-1", l)
		require.NoError(t, err)
		entry, err := q.Ledger.Lookup(t.Context(), "A-1")
		require.NoError(t, err)
		_, err = store.PutRecord(t.Context(), "A-1", entry.Record.WithLetter(l.IntentID, seq), entry.Seq)
		require.NoError(t, err)
	}}
	slow.Ledger.ExportSetStore(late)
	gone, err := slow.Operator.Drop(t.Context(), l, anna)
	require.NoError(t, err)
	require.Nil(t, late.beforeIntent, "the letter was replaced")
	require.True(t, gone)
	require.False(t, lookup(t, q, "A-1").Dropped)
	require.Greater(t, letterOf(t, q, "A-1").Seq, l.Seq)
	requireBalanced(t, q)
}

// A person drops the letter of a withheld intent. No redelivery of that one stores it again, and the order in doubt
// keeps its own.
func TestDropOfAListedLetter(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	forgetIDs(t, s)
	doubtful(t, q)
	first, l := letterOf(t, q, "A-1"), withheld(t, q)
	require.Len(t, lettersOf(t, q, "A-1"), 2)
	gone, err := q.Operator.Drop(t.Context(), l, anna)
	require.NoError(t, err)
	require.False(t, gone)
	require.Equal(t, first.Seq, letterOf(t, q, "A-1").Seq)
	requireLetters(t, q, 1)
	publishAgain(t, q, correction("i2"))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, q.Worker.Complete(t.Context(), d))
	requireDrained(t, q)
	requireLetters(t, q, 1)
	requireBalanced(t, q)
	gone, err = q.Operator.Drop(t.Context(), first, anna)
	require.NoError(t, err)
	require.False(t, gone)
	require.Equal(t, order.OutcomeUnknown, lookup(t, q, "A-1").Outcome())
	requireLetters(t, q, 0)
	requireBalanced(t, q)
}

// A person resolves an order and is held up before the letter is removed.
// Meanwhile a producer's correction fails. Its letter must stay. Found by the
// simulation.
func TestResolveLeavesALaterIntentsLetter(t *testing.T) {
	s := startBroker(t)
	q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
	deadLetter(t, q, "A-1", exhaustedInDoubt())
	reached, goOn := make(chan struct{}), make(chan struct{})
	slow.Ledger.ExportSetStore(&slowRemoval{Store: slow.Ledger.ExportStore(), reached: reached, goOn: goOn})
	done := make(chan error)
	go func() {
		_, err := slow.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, anna)
		done <- err
	}()
	<-reached
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "b9:1"})
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	settleAs(t, q, d, report(order.Unsure, d.History))
	d = pull(t, q, 1)[0]
	r := report(order.Retry, d.History)
	r.End = order.EndTotalBudget
	settleAs(t, q, d, r)
	requireDrained(t, q)
	close(goOn)
	require.NoError(t, <-done)
	require.Equal(t, "b9:1", letterOf(t, q, "A-1").IntentID)
	requireBalanced(t, q)
}

// A person resolves an order, and the broker's answer is late. Meanwhile a
// colleague publishes the order again, and it is in doubt again: at the API it
// may exist by now. The first word does not cover that. Found by the simulation.
func TestAWordIsAboutTheDoubtThatThePersonSaw(t *testing.T) {
	for name, stored := range map[string]bool{"the word was stored, and its confirmation lost": true, "a colleague said so first": false} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
			deadLetter(t, q, "A-1", exhaustedInDoubt())
			slow.Ledger.ExportSetStore(&slowWriter{Store: slow.Ledger.ExportStore(), stored: stored, meanwhile: func() {
				_, err := q.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, settle.Person{Name: "ben"})
				require.NoError(t, err)
				publish(t, q, intent("A-1", "b9:1"))
				settleAs(t, q, pull(t, q, 1)[0], exhaustedInDoubt())
				requireDrained(t, q)
			}})
			_, err := slow.Operator.Resolve(t.Context(), "A-1", "", order.OutcomeRejected, anna)
			require.ErrorIs(t, err, settle.ErrReplaced)
			rec := lookup(t, q, "A-1")
			require.Equal(t, order.OutcomeUnknown, rec.Outcome())
			require.Equal(t, "b9:1", rec.IntentID)
			require.Equal(t, "b9:1", letterOf(t, q, "A-1").IntentID)
			requireBalanced(t, q)
		})
	}
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
			slow.Ledger.ExportSetStore(&slowWriter{Store: slow.Ledger.ExportStore(), meanwhile: func() {
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

// slowRemoval waits before it removes a letter.
type slowRemoval struct {
	settle.Store
	reached, goOn chan struct{}
}

func (l *slowRemoval) DeleteLetter(ctx context.Context, token string, seq uint64) error {
	close(l.reached)
	<-l.goOn
	return l.Store.DeleteLetter(ctx, token, seq)
}

// An order in doubt was withdrawn, so its record names who did that. The next intent is
// withheld by a worker, and its letter is owed.
func TestAWithheldIntentIsNobodysWord(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Duplicate, d.History))
	requireDrained(t, q)
	entry, err := q.Ledger.Lookup(t.Context(), "A-1")
	require.NoError(t, err)
	withdrawn := *entry.Record
	withdrawn.By = "anna"
	_, err = q.Ledger.ExportStore().PutRecord(t.Context(), "A-1", &withdrawn, entry.Seq)
	require.NoError(t, err)
	publish(t, q, intent("A-1", "i2"))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work)
	_, err = q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	rec := lookup(t, q, "A-1")
	require.Empty(t, rec.By)
	require.True(t, rec.NeedsLetter())
}
