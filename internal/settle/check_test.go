package settle_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// R2: an unreadable record stops its own order and no other one.
func TestR2AnUnreadableRecordHoldsItsOwnOrderOnly(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	for no, junk := range map[string]string{"A-1": "not JSON", "A-2": `{"order_no":"A-2","outcome":"teleported"}`} {
		_, err := s.JetStream(t).Publish(t.Context(), "orders.results."+no, []byte(junk))
		require.NoError(t, err)
	}
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"))
	for _, d := range pull(t, q, 3) {
		if d.OrderNo() == "A-3" {
			require.Equal(t, settle.WorkSubmit, d.Work)
			continue
		}
		require.Equal(t, settle.WorkNone, d.Work, "it may have been accepted: neither posted nor settled")
		require.ErrorIs(t, q.Worker.GiveUp(t.Context(), d), settle.ErrUnreadable)
	}
	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, c.Pending)
}

// A clock was ahead when it stamped an order, so the next attempts use the
// milliseconds after that. A worker is killed after such an attempt and before any
// record. The next attempt must not use its timestamp again, whatever deliveries
// come in between. Found by the simulation.
func TestATimestampOfALostAttemptIsNotUsedAgain(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	ahead := time.Now().Add(time.Hour).UnixMilli()
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, order.Report{End: order.EndHandBack, History: order.History{Attempts: 1, LastTimestamp: ahead}})
	d = pull(t, q, 1)[0]
	require.Equal(t, ahead, d.History.LastTimestamp, "nothing was lost")

	d = again(t, d, q) // its worker may have sent some with ahead+1, ahead+2, ...
	first := d.History.LastTimestamp
	require.Greater(t, first, ahead+10)
	require.NoError(t, q.Worker.GiveUp(t.Context(), d))
	d = again(t, d, q)
	require.GreaterOrEqual(t, d.History.LastTimestamp, first, "giving up explains no attempt")

	require.NoError(t, q.Worker.NoteBegun(t.Context(), d))
	second := again(t, d, q)
	require.Greater(t, second.History.LastTimestamp, d.History.LastTimestamp+10)
}

// A shutdown, a closed gate or a failed check costs an order nothing.
func TestR3AnExplainedDeliveryIsNoDoubt(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	for range 3 {
		settleAs(t, q, d, order.Report{End: order.EndHandBack, History: d.History})
		d = pull(t, q, 1)[0]
		require.False(t, d.History.Unsure)
		require.Zero(t, d.Unexplained)
		require.Equal(t, settle.WorkSubmit, d.Work)
	}
	require.NoError(t, q.Worker.GiveUp(t.Context(), d))
	d = again(t, d, q)
	require.EqualValues(t, 5, d.Delivered)
	require.False(t, d.History.Unsure)
	require.Zero(t, d.Unexplained)
}

// Doubt and suspicion survive a delivery that was given up.
func TestR3GivingUpExplainsOnlyItself(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := again(t, pull(t, q, 1)[0], q)
	require.NoError(t, q.Worker.GiveUp(t.Context(), d))
	d = again(t, d, q)
	require.True(t, d.History.Unsure)
	require.Equal(t, 1, d.Unexplained)
	d = again(t, d, q)
	require.Equal(t, settle.WorkSuspect, d.Work)
}

// R6: the check fails for an intent whose order is unknown. The note about that
// delivery must not pass for permission to submit.
func TestR6GivingUpDoesNotHideAnUnknownOutcome(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Duplicate, d.History))
	requireDrained(t, q)
	publish(t, q, intent("A-1", "i2"))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkWithheld, d.Work)
	d.Work = settle.WorkNone
	require.NoError(t, q.Worker.GiveUp(t.Context(), d))
	require.Equal(t, order.OutcomeUnknown, lookup(t, q, "A-1").Outcome())
	require.Equal(t, settle.WorkWithheld, again(t, d, q).Work)
}

// R9: an order that is delivered early keeps its time, and the early delivery
// costs it nothing.
func TestR9AnEarlyRedeliveryWaitsForItsTime(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	r := order.Report{End: order.EndSubmissionBudget, Verdict: order.Retry, Delay: time.Millisecond, History: d.History}
	r.History.Attempts = 5
	entry := settleAs(t, q, d, r)
	note := *entry.Record
	note.NotBefore = time.Now().Add(time.Hour)
	_, err := q.Store().PutRecord(t.Context(), settle.FileToken(d.OrderNo()), &note, entry.Seq)
	require.NoError(t, err)

	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkNotYet, d.Work)
	require.NoError(t, q.Worker.HandBack(t.Context(), d, 0))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkNotYet, d.Work)
	require.Equal(t, 5, d.History.Attempts)
	require.False(t, d.History.Unsure)
	require.Zero(t, d.Unexplained)
}

// R8: from the third unexplained delivery on, an intent is handled alone each
// time, until its notes make it poison.
func TestR8ASuspectStaysAlone(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := again(t, again(t, pull(t, q, 1)[0], q), q)
	for n := 1; n <= 3; n++ {
		require.Equal(t, settle.WorkSuspect, d.Work)
		require.NoError(t, q.Worker.NoteSuspect(t.Context(), d))
		d = again(t, d, q) // its worker went down
		require.Equal(t, n, d.History.Suspects)
	}
	settleAs(t, q, d, order.Report{End: order.EndHandBack, History: d.History})
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work, "it was brought to an end: its worker lives")
	require.Zero(t, d.History.Suspects)
	require.True(t, d.History.Unsure)
}

// An intent ID that JSON cannot carry is still recognised.
func TestR6AnyIntentIDIsRecognised(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	long := make([]byte, 5000)
	for i := range long {
		long[i] = 'x'
	}
	for no, id := range map[string]string{"A-1": "caf\xe9", "A-2": string(long), "A-3": ""} {
		publish(t, q, intent(no, id))
		d := pull(t, q, 1)[0]
		killedBeforeAck(t, q, d, report(order.Rejected, d.History))
		d = again(t, d, q)
		require.Equal(t, settle.WorkSettled, d.Work, "%q", id)
		require.NoError(t, q.Worker.Complete(t.Context(), d))
		requireDrained(t, q)
	}
	requireBalanced(t, q)
}

// R6: a cancellation removes an intent that is on its way to a worker, and another
// intent is settled before the worker looks. The record no longer says that the
// first one was cancelled. Found by the simulation.
func TestR6AnIntentThatWasWithdrawnOnItsWayIsNotPosted(t *testing.T) {
	s := startBroker(t)
	slow, q := openQueue(t, s, "slow"), openQueue(t, s, "w1")
	publish(t, q, intent("A-1", "i1"))
	first := pull(t, slow, 1)[0] // the broker has sent it; its check comes later
	require.NoError(t, q.Store().DeleteIntent(t.Context(), first.Seq))
	publish(t, q, intent("A-1", "i2"))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	settleAs(t, q, d, report(order.Rejected, d.History))
	requireDrained(t, q)
	require.NoError(t, slow.Worker.Check(t.Context(), []*settle.Delivery{first}))
	require.Equal(t, settle.WorkGone, first.Work)
	before := lookup(t, q, "A-1")
	settle.NewHandler(slow.Worker, settle.HandlerOptions{Submit: func(context.Context, *order.Submission) *order.Report {
		require.Fail(t, "posted")
		return &order.Report{}
	}}).Handle(t.Context(), t.Context(), first, nil)
	require.Equal(t, before, lookup(t, q, "A-1"))

	// The clocks of two servers may differ. What is stored is pending, whatever they say.
	publish(t, q, intent("A-1", "i3"))
	d = pull(t, q, 1)[0]
	d.EnqueuedAt = d.EnqueuedAt.Add(-time.Hour)
	require.NoError(t, q.Worker.Check(t.Context(), []*settle.Delivery{d}))
	require.Equal(t, settle.WorkSubmit, d.Work)
}
