package settle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// deafAnswer is the answer of a worker that dies before its ack.
type deafAnswer struct{}

func (deafAnswer) Ack() error                       { return nil }
func (deafAnswer) Nak() error                       { return nil }
func (deafAnswer) NakWithDelay(time.Duration) error { return nil }

// killedBeforeAck settles a delivery, like a worker that is killed between result and ack.
func killedBeforeAck(t *testing.T, q *queue.Queue, d *settle.Delivery, r order.Report) {
	t.Helper()
	real := d.ExportAnswer()
	d.ExportSetAnswer(deafAnswer{})
	settleAs(t, q, d, r)
	d.ExportSetAnswer(real)
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
			killedBeforeAck(t, q, d, rejected())
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
	_, err = q.Store().PutRecord(t.Context(), "A-1", &leave, entry.Seq)
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
	a, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	require.EqualValues(t, 1, a.Pending, "the second is not settled yet: %+v", a)
	require.NoError(t, q.Worker.Complete(t.Context(), d))
	requireDrained(t, q)
	require.EqualValues(t, 2, requireBalanced(t, q).Settled)
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

// While an intent is withheld, a person says that the order does not exist. The doubt is over.
func TestR3AWithheldIntentDoesNotRestoreADoubtThatAPersonEnded(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	doubtful(t, q)
	publish(t, q, intent("A-1", "i2"))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work)
	resolved := *d.Last.Record
	resolved.SettledBy("anna", order.OutcomeRejected, time.Now())
	_, err := q.Store().PutRecord(t.Context(), "A-1", &resolved, d.Last.Seq)
	require.NoError(t, err)
	_, err = q.Worker.Refuse(t.Context(), d)
	require.Error(t, err)
	d = again(t, d, q)
	require.Equal(t, settle.WorkSubmit, d.Work)
	require.False(t, d.History.Unsure)
}
