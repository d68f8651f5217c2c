package settle_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
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

// A producer publishes an intent with a time straight to the queue. It goes back until
// its time, without doubt and without an attempt.
func TestAnIntentInTheQueueWaitsForItsTime(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	at := time.Now().Add(4 * time.Second)
	put := func(no, notBefore string) {
		m := &settle.Message{Subject: "orders.new." + no, Data: body(no), Header: settle.Header{settle.HeaderNotBefore: {notBefore}, settle.HeaderIntentID: {no}}}
		status, _, err := q.Store().PublishIntent(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, settle.Stored, status)
	}
	put("A-1", at.Format(time.RFC3339Nano))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkNotYet, d.Work)
	require.NoError(t, q.Worker.HandBack(t.Context(), d, time.Until(at)))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	require.False(t, time.Now().Before(at))
	require.False(t, d.History.Unsure)
	require.Zero(t, d.Unexplained)
	settleAs(t, q, d, report(order.Accepted, order.History{Attempts: 1}))
	put("A-2", "2026-11-23T08:00:00")
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkInvalid, d.Work)
	require.ErrorContains(t, d.Invalid, "header Order-Not-Before: \"2026-11-23T08:00:00\" has no zone")
}

// R3: nobody can have posted what is invalid, so lost deliveries put nothing in doubt, however often
// they took a worker down.
func TestR3NobodyPostedWhatIsInvalid(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"))
	ds := pull(t, q, 2)
	once, often := again(t, ds[0], q), again(t, again(t, again(t, ds[1], q), q), q)
	for _, d := range []*settle.Delivery{once, often} {
		d.Invalid = errors.New("not JSON")
	}
	require.NoError(t, q.Worker.Check(t.Context(), []*settle.Delivery{once, often}))
	require.Equal(t, []settle.Work{settle.WorkInvalid, settle.WorkSuspect}, []settle.Work{once.Work, often.Work})
	for _, d := range []*settle.Delivery{once, often} {
		handle(t, q, d)
		require.Equal(t, []any{"invalid", false}, []any{lookup(t, q, d.OrderNo()).Word, lookup(t, q, d.OrderNo()).Unsure})
	}
}

// R7: after a reconnect, the request of an order's former owner may still be on its way. Only an
// order that nobody was given before is posted at once. The others go back until then: in the slots
// of a worker they would keep out what may be posted.
func TestR7ARedeliveredOrderIsGivenBackAfterAReconnect(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"), intent("A-4", "i4"), intent("A-5", "i5"))
	ds := pull(t, q, 5)
	first, redelivered, lost, suspect, invalid := ds[0], again(t, ds[1], q), ds[2], again(t, again(t, ds[3], q), q), again(t, ds[4], q)
	lost.CountLost = true // the broker was killed, and a mark says that somebody had it
	invalid.Invalid = errors.New("not JSON")

	clock := laterTime{settle.RealTime(), new(atomic.Int64)}
	p := settle.New(settle.Config{Worker: "a", AttemptTimeout: time.Hour, Log: zerolog.Nop()}, q.Store(), clock)
	needs := func(want settle.Work, ds ...*settle.Delivery) {
		t.Helper()
		require.NoError(t, p.Worker.Check(t.Context(), ds))
		for _, d := range ds {
			require.Equal(t, want, d.Work, d.OrderNo())
		}
	}
	needs(settle.WorkSubmit, first, redelivered, lost)
	needs(settle.WorkSuspect, suspect)
	p.Worker.Reconnected()
	needs(settle.WorkSubmit, first)
	needs(settle.WorkInvalid, invalid)
	needs(settle.WorkNotYet, redelivered, lost, suspect)
	clock.ahead.Store(int64(time.Hour))
	needs(settle.WorkSubmit, redelivered, lost)
	needs(settle.WorkSuspect, suspect)

	p.Worker.Reconnected()
	needs(settle.WorkNotYet, redelivered, lost, suspect)
	for _, d := range []*settle.Delivery{redelivered, lost, suspect} {
		require.InDelta(t, time.Hour, d.ExportWait(), float64(time.Minute))
		unexplained := d.History.Lost
		settle.NewHandler(p.Worker, settle.HandlerOptions{}).Handle(t.Context(), t.Context(), d, nil) // returns at once, and posts nothing
		require.Equal(t, unexplained, lookup(t, q, d.OrderNo()).Lost, "a note explains the delivery that went back")
	}
}

// TestInvalidReasons: intents that break the same rule at the same path share a
// reason.
func TestInvalidReasons(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	for i, c := range []struct{ body, want string }{
		{`{"order_no":"N-0","timeout":"soon"}`, "invalid: wrong_type, timeout"},
		{`{"order_no":"N-1","timeout":1,"items":[{"n":1},{"n":9007199254740993}]}`, "invalid: number_not_exact, items[].n"},
		{`{"order_no":"N-2"}`, "invalid: missing_field, timeout"},
		{`no JSON`, "invalid: invalid_json"},
	} {
		publish(t, q, settle.Intent{OrderNo: fmt.Sprintf("N-%d", i), Body: []byte(c.body)})
		d := pull(t, q, 1)[0]
		require.Equal(t, c.want, d.InvalidReason())
		d.Release()
	}
}
