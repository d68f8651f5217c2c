package settle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// writeOnly writes the outcome of a delivery, like a worker that is killed
// between result and letter.
func writeOnly(t *testing.T, q *queue.Queue, d *settle.Delivery, r order.Report) settle.Entry {
	t.Helper()
	written, err := q.Ledger.ExportWriteRecord(t.Context(), d.ExportToken(), d.Last, q.Worker.ExportRecord(d, r, order.Decide(&r, order.Facts{})))
	require.NoError(t, err)
	return written
}

// R4: a worker is killed between letter and record. Nobody sees that letter, and the redelivery stores its own.
func TestR4ALetterWithoutARecordCountsForNothing(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	failed := q.Worker.ExportRecord(d, rejected(), order.Settlement{Action: order.ActSettle, Outcome: order.OutcomeRejected})
	require.NoError(t, q.Worker.ExportFileLetter(t.Context(), d, settle.ExportNewLetter(d, &failed, nil))) // and killed
	inert := d.ExportLetter()
	d = again(t, d, q)
	require.Equal(t, settle.WorkSubmit, d.Work)
	requireNoLetter(t, q, "A-1")
	requireBalanced(t, q)
	settleAs(t, q, d, rejected())
	requireDrained(t, q)
	require.Len(t, lettersOf(t, q, "A-1"), 1)
	require.Greater(t, letterOf(t, q, "A-1").Seq, inert)
	requireBalanced(t, q)
	requireLetters(t, q, 2) // the first until it is swept
}

// R4: the letter is found, or is stored again if somebody removed it, and the record names it.
func TestR4ARedeliveryFindsTheLetter(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *queue.Queue, *settle.Letter){
		"it is there":         func(*testing.T, *queue.Queue, *settle.Letter) {},
		"somebody removed it": removeLetter,
	} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "a")
			publish(t, q, intent("A-1", "i1"))
			d := pull(t, q, 1)[0]
			real := d.ExportAnswer()
			d.ExportSetAnswer(deafAnswer{}) // killed between record and ack
			settleAs(t, q, d, rejected())
			d.ExportSetAnswer(real)
			l := letterOf(t, q, "A-1")
			d = again(t, d, q)
			require.Equal(t, settle.WorkSettled, d.Work)
			lose(t, q, l)
			require.NoError(t, q.Worker.Complete(t.Context(), d))
			requireDrained(t, q)
			require.EqualValues(t, 1, requireBalanced(t, q).Letters)
			now := letterOf(t, q, "A-1")
			require.Equal(t, name == "it is there", l.Seq == now.Seq)
			require.Equal(t, body("A-1"), now.Body)
			require.Equal(t, "rule 2", now.Reason)
			require.Equal(t, 1, lookup(t, q, "A-1").Settled)
		})
	}
}

// R4: two workers make sure of a letter at once. One is named, and the other is removed.
func TestR4TwoWorkersStoreOneLetter(t *testing.T) {
	s := startBroker(t)
	slow, q := openQueue(t, s, "slow"), openQueue(t, s, "w1")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	writeOnly(t, q, d, rejected())
	d = again(t, d, slow)
	slow.Ledger.ExportSetStore(&meanwhile{Store: slow.Ledger.ExportStore(), afterFiled: func() {
		require.NoError(t, q.Worker.Complete(t.Context(), again(t, d, q)))
	}})
	require.NoError(t, slow.Worker.Complete(t.Context(), d))
	requireDrained(t, q)
	require.Len(t, lettersOf(t, q, "A-1"), 1)
	requireLetters(t, q, 1)
	requireBalanced(t, q)
}

// R4: a record without a letter, as one has that a doubt reported late has raised from cancelled.
func TestR4ARecordWithoutALetterGetsOne(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	writeOnly(t, q, d, report(order.Rejected, d.History))
	require.EqualValues(t, 1, requireBalanced(t, q).Unacked, "its redelivery files the letter")
	d = again(t, d, q)
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, q.Worker.Complete(t.Context(), d))
	requireDrained(t, q)
	require.EqualValues(t, 1, requireBalanced(t, q).Letters)
	require.Equal(t, body("A-1"), letterOf(t, q, "A-1").Body)
}

// R6: an intent for an accepted order with the same body is done and counted.
// With another body it is a conflict, and the result stays.
func TestR6AnAcceptedOrderIsNotSubmittedAgain(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)

	publish(t, q, intent("A-1", "i2"))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkRepeat, d.Work)
	_, err := q.Worker.Repeat(t.Context(), d)
	require.NoError(t, err)
	requireDrained(t, q)

	other := []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`)
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: other, ID: "i3"})
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkConflict, d.Work)
	require.NoError(t, q.Worker.ExportFileLetter(t.Context(), d, q.Worker.ExportRefusal(d, d.Last.Record))) // and killed
	d = again(t, d, q)
	require.Equal(t, settle.WorkConflict, d.Work)
	end, err := q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, order.OutcomeRejected, end.Record.Outcome(), "the intent's end, for the counters")
	require.Equal(t, "i3", end.Record.IntentID)
	require.False(t, end.Record.SettledAt.Before(end.Record.EnqueuedAt))
	requireDrained(t, q)

	rec := lookup(t, q, "A-1")
	require.Equal(t, order.OutcomeAccepted, rec.Outcome())
	require.Equal(t, "i2", rec.IntentID, "the result is about the intent that was accepted")
	require.Equal(t, "i3", rec.Conflicts[0].IntentID)
	l := letterOf(t, q, "A-1")
	require.True(t, l.Conflict)
	require.Equal(t, other, l.Body)
	a := requireBalanced(t, q)
	require.EqualValues(t, 3, a.Settled)
	require.EqualValues(t, 1, a.Conflicts)
}

func TestR6AnUnknownOrderIsWithheldUntilAPersonAllowsIt(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Duplicate, d.History))
	requireDrained(t, q)

	publish(t, q, intent("A-1", "i2"))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work)
	_, err := q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	requireDrained(t, q)
	l := letterOf(t, q, "A-1")
	require.Equal(t, "i2", l.IntentID)
	require.Equal(t, order.OutcomeUnknown, l.Outcome)
	requireLetters(t, q, 1) // it holds the same body
	entry, err := q.Ledger.Lookup(t.Context(), "A-1")
	require.NoError(t, err)
	require.Empty(t, entry.Record.Conflicts, "the same body")
	require.Equal(t, "i1", entry.Record.Earlier[0].IntentID)
	leave := *entry.Record
	leave.AllowedFor = "i3"
	_, err = q.Ledger.ExportStore().PutRecord(t.Context(), "A-1", &leave, entry.Seq)
	require.NoError(t, err)

	publish(t, q, intent("A-1", "i3"))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	require.True(t, d.Allowed)
	require.True(t, d.History.Unsure)
	settleAs(t, q, d, order.Report{End: order.EndHandBack, History: d.History})
	d = pull(t, q, 1)[0]
	require.True(t, d.Allowed, "a hand-back does not take the leave away")
	settleAs(t, q, d, report(order.Duplicate, d.History))
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome())
	require.Nil(t, letterOf(t, q, "A-1"))
	requireDrained(t, q)
	require.EqualValues(t, 3, requireBalanced(t, q).Settled)
}

// A person drops the letter of a conflict. Her program looked for pending intents before a repetition of the accepted
// body was stored, and writes after that one's check.
func TestR4ARepetitionNamesNoLetterThatWasDropped(t *testing.T) {
	s := startBroker(t)
	q, slow := openQueue(t, s, "w1"), openQueue(t, s, "anna")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)
	publish(t, q, correction("i2"))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkConflict, d.Work)
	_, err := q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	requireDrained(t, q)
	slow.Ledger.ExportSetStore(&meanwhile{Store: slow.Ledger.ExportStore(), afterIntent: func() {
		publish(t, q, intent("A-1", "i3"))
		d = pull(t, q, 1)[0]
		require.Equal(t, settle.WorkRepeat, d.Work)
	}})
	gone, err := slow.Operator.Drop(t.Context(), letterOf(t, q, "A-1"), anna)
	require.NoError(t, err)
	require.False(t, gone)
	stored, err := q.Worker.Repeat(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, "i3", stored.Record.IntentID)
	require.True(t, stored.Record.Listed("i2").Dropped)
	require.Empty(t, stored.Record.Letters())
	requireDrained(t, q)
	requireLetters(t, q, 0)
	requireBalanced(t, q)
}

// A conflict that is delivered again because its acknowledgement was lost is
// not counted again. Its letter is made sure of.
func TestR6ARedeliveredConflictIsSettled(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)
	publish(t, q, settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`), ID: "i2"})
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkConflict, d.Work)
	_, err := q.Ledger.ExportWriteRecord(t.Context(), d.ExportToken(), d.Last, *q.Worker.ExportRefusal(d, d.Last.Record).ExportRefusedRecord(d.Last.Record))
	require.NoError(t, err) // and killed
	d = again(t, d, q)
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, q.Worker.Complete(t.Context(), d))
	requireDrained(t, q)
	require.True(t, letterOf(t, q, "A-1").Conflict)
	require.EqualValues(t, 2, requireBalanced(t, q).Settled)
}

// A late acceptance of an earlier intent meets a newer intent with another
// body. The order exists with the earlier body, and the newer intent is a
// conflict.
func TestR6ALateAcceptanceMakesAnotherBodyAConflict(t *testing.T) {
	a, b, frozen, successor := twoOwners(t)
	r := order.Report{End: order.EndAnswer, Verdict: order.Rejected, Final: true, History: successor.History}
	settleAs(t, b, successor, r)
	requireDrained(t, b)

	publish(t, b, settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`), ID: "i2"})
	d := pull(t, b, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work, "a correction")
	settleAs(t, b, d, order.Report{End: order.EndHandBack, History: d.History})
	frozen.Lease().ExportEndNow()
	settleAs(t, a, frozen, report(order.Accepted, frozen.History))

	d = pull(t, b, 1)[0]
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, b.Worker.Complete(t.Context(), d))
	requireDrained(t, b)
	l := letterOf(t, b, "A-1")
	require.True(t, l.Conflict)
	require.Equal(t, "i2", l.IntentID)
	require.Equal(t, "i1", lookup(t, b, "A-1").IntentID)
	require.NotNil(t, lookup(t, b, "A-1").ConflictOf("i2"))
	require.EqualValues(t, 2, requireBalanced(t, b).Settled)
}

// R11: the broker forgets an ID after two minutes and then stores the same
// submission a second time. It is not judged again, and the books balance.
func TestR11TheSameIntentStoredTwiceCountsTwice(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	forgetIDs(t, s)
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Rejected, d.History))
	requireDrained(t, q)
	publishAgain(t, q, intent("A-1", "i1"))

	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSettled, d.Work)
	a, err := books.Audit(t.Context(), q)
	require.NoError(t, err)
	require.EqualValues(t, 1, a.Pending, "the second is not settled yet: %+v", a)
	require.NoError(t, q.Worker.Complete(t.Context(), d))
	requireDrained(t, q)
	require.EqualValues(t, 2, requireBalanced(t, q).Settled)
}

// R11: an intent without an ID that was settled and not yet acknowledged.
func TestR11ASettledIntentThatIsStillStoredIsNotPending(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", ""), intent("A-2", "i2"))
	for _, d := range pull(t, q, 2) {
		writeOnly(t, q, d, report(order.Accepted, d.History))
	}
	a := requireBalanced(t, q)
	require.EqualValues(t, 2, a.Unacked)
	require.Zero(t, a.Pending)
}

// Under park the first delivery of an order_no is posted without a note: the mark tells the
// next one. Any other is noted, and proves nothing.
func TestR2ParkNotesWhatNoMarkProves(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	first, err := q.Worker.BeginAttempt(t.Context(), d, d.History)
	require.NoError(t, err)
	require.True(t, first)
	require.Nil(t, lookup(t, q, "A-1"))

	d = again(t, d, q)
	require.True(t, d.History.Unsure, "the delivery before it may have posted the order")
	first, err = q.Worker.BeginAttempt(t.Context(), d, d.History)
	require.NoError(t, err)
	require.False(t, first)
	require.Equal(t, order.NoteAttempt, lookup(t, q, "A-1").Note)
}

// R2: the note is the claim. A worker that finds it taken must not post.
func TestR2AStolenClaimStopsTheAttempt(t *testing.T) {
	a, b, frozen, successor := twoOwners(t)
	err := b.Worker.NoteAttempt(t.Context(), successor, successor.History)
	require.NoError(t, err)
	err = a.Worker.NoteAttempt(t.Context(), frozen, frozen.History)
	require.ErrorIs(t, err, order.ErrLeaseLost)
	settleAs(t, b, successor, report(order.Accepted, successor.History))
	err = a.Worker.NoteAttempt(t.Context(), frozen, frozen.History)
	require.ErrorIs(t, err, order.ErrLeaseLost)
}

// While an intent is withheld, a person says that the order does not exist. The doubt is
// over, and with it her permission for another attempt.
func TestR3AWithheldIntentDoesNotRestoreADoubtThatAPersonEnded(t *testing.T) {
	for _, verdict := range []order.Verdict{order.Accepted, order.Rejected} {
		t.Run(verdict.String(), func(t *testing.T) {
			s := startBroker(t)
			a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
			doubtful(t, a)
			require.NoError(t, a.Operator.ExportAllow(t.Context(), letterOf(t, a, "A-1"), "replay:1", anna))
			publish(t, a, intent("A-1", "i2"))
			d := pull(t, a, 1)[0]
			require.Equal(t, settle.WorkWithheld, d.Work)
			resolved := *lookup(t, b, "A-1")
			resolved.SetOutcome(order.OutcomeRejected)
			resolved.By, resolved.Unsure, resolved.AllowedFor = "anna", false, ""
			_, err := b.Ledger.ExportUpdateRecord(t.Context(), d.ExportToken(), func(*order.Record) (*order.Record, error) { return &resolved, nil })
			require.NoError(t, err)

			_, err = a.Worker.Refuse(t.Context(), d)
			require.Error(t, err)
			d = again(t, d, b)
			require.Equal(t, settle.WorkSubmit, d.Work)
			require.False(t, d.History.Unsure)
			require.False(t, d.Allowed)
			settleAs(t, b, d, report(verdict, d.History))
			if l := letterOf(t, b, "A-1"); verdict == order.Accepted {
				require.Nil(t, l)
			} else {
				require.Equal(t, order.OutcomeRejected, l.Outcome)
			}
			requireDrained(t, b)
			requireBalanced(t, b)
		})
	}
}

// An intent is withheld because the order is in doubt. While its letter is filed, a frozen
// worker's acceptance arrives. The order was created, so nothing is left for a person.
func TestR4AnAcceptanceThatArrivesWhileAnIntentIsWithheldRemovesItsLetter(t *testing.T) {
	a, b, frozen, taken := twoOwners(t)
	require.True(t, taken.History.Unsure)
	require.Equal(t, order.OutcomeUnknown, settleAs(t, b, taken, report(order.Rejected, taken.History)).Record.Outcome())
	requireDrained(t, b)
	publish(t, b, intent("A-1", "i2"))
	d := pull(t, b, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work)

	settleAs(t, a, frozen, report(order.Accepted, frozen.History))
	entry, err := b.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	require.Equal(t, order.OutcomeAccepted, entry.Record.Outcome())
	require.Nil(t, letterOf(t, b, "A-1"))
	requireDrained(t, b)
	requireBalanced(t, b)
}
