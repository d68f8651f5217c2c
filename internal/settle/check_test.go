package settle_test

import (
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
		_, err := jetStream(t, s).Publish(t.Context(), "orders.results."+no, []byte(junk))
		require.NoError(t, err)
	}
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"))
	for _, d := range pull(t, q, 3) {
		if d.OrderNo() == "A-3" {
			require.Equal(t, settle.WorkSubmit, d.Work)
			continue
		}
		require.Equal(t, settle.WorkNone, d.Work, "it may have been accepted: neither posted nor settled")
		require.ErrorIs(t, q.GiveUp(t.Context(), d), settle.ErrUnreadable)
	}
	c, err := q.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3, c.Pending)
}

// R3: a worker is killed after the POST and before any note. The redelivery is
// in doubt.
func TestR3ADeliveryThatNoNoteExplainsIsDoubt(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	first := pull(t, q, 1)[0]
	require.False(t, first.History.Unsure)
	second := again(t, first, q)
	require.True(t, second.History.Unsure)
	require.Equal(t, 1, second.Unexplained)

	stored := settleAs(t, q, second, report(order.Duplicate, second.History))
	require.Equal(t, order.OutcomeAccepted, stored.Record.Outcome(), "the duplicate is our own first attempt")
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
	require.NoError(t, q.GiveUp(t.Context(), d))
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
	require.NoError(t, q.GiveUp(t.Context(), d))
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
	require.NoError(t, q.GiveUp(t.Context(), d))
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
	_, err := q.ExportWriteRecord(t.Context(), d.ExportToken(), entry, note)
	require.NoError(t, err)

	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkNotYet, d.Work)
	require.NoError(t, q.HandBack(t.Context(), d, 0))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkNotYet, d.Work)
	require.Equal(t, 5, d.History.Attempts)
	require.False(t, d.History.Unsure)
	require.Zero(t, d.Unexplained)
}

// R2: another worker's attempt is open. Waiting for it neither closes its claim
// nor makes its result doubtful.
func TestR2AnOpenClaimIsLeftToItsOwner(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	owner := pull(t, a, 1)[0]
	h := owner.History
	h.Attempts, h.LastAttemptAt = 1, time.Now().UTC()
	first, err := a.NoteAttempt(t.Context(), owner, h)
	require.NoError(t, err)
	require.True(t, first, "confirmed before anybody else could have tried")

	waiting := again(t, owner, b)
	require.Equal(t, settle.WorkClaimed, waiting.Work)
	require.NoError(t, b.HandBack(t.Context(), waiting, time.Hour))
	require.Equal(t, order.NoteAttempt, lookup(t, b, "A-1").Note)

	stored := settleAs(t, a, owner, report(order.Rejected, h))
	require.Equal(t, order.OutcomeRejected, stored.Record.Outcome())
}

// R8: from the third unexplained delivery on, an intent is handled alone each
// time, until its notes make it poison.
func TestR8ASuspectStaysAlone(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := again(t, again(t, pull(t, q, 1)[0], q), q)
	for n := 1; n <= 3; n++ {
		require.Equal(t, settle.WorkSuspect, d.Work)
		require.NoError(t, q.NoteSuspect(t.Context(), d))
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
		r := report(order.Rejected, d.History)
		_, err := q.ExportWriteRecord(t.Context(), d.ExportToken(), d.Last, q.ExportRecord(d, r, order.Decide(r, order.Facts{})))
		require.NoError(t, err)
		d = again(t, d, q)
		require.Equal(t, settle.WorkSettled, d.Work, "%q", id)
		require.NoError(t, q.Complete(t.Context(), d))
		requireDrained(t, q)
	}
	requireBalanced(t, q)
}
