package feed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// marks counts the cancellations that are stored.
func marks(t *testing.T, q *queue.Queue) int {
	t.Helper()
	view, err := fleet.New(q).Read(t.Context())
	require.NoError(t, err)
	return len(view.Cancelled.Marks)
}

// submitted returns the intents of an import as a second run submits them.
func submitted(batch string, n int) []settle.Intent {
	in := waitingIntents("bulk", batch, n)
	for i := range in {
		in[i].ID += ":again"
	}
	return in
}

// R15: a mark is about the streams that it was made about. An import that is enqueued again after one of
// them was made again is sent, and the mark goes.
func TestR15AMarkCancelsNothingOfAnotherStream(t *testing.T) {
	for name, c := range map[string]struct {
		streams []string
		waits   int // of the first run, afterwards
	}{
		"both":             {[]string{"ORDERS", "ORDERS_WAITING"}, 0},
		"the waiting room": {[]string{"ORDERS_WAITING"}, 0},
		"the queue":        {[]string{"ORDERS"}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			q := openQueue(t, s, "anna")
			publish(t, q, waitingIntents("bulk", "march", 5)...)
			_, err := imports.CancelBatch(t.Context(), q, "march", "anna")
			require.NoError(t, err)
			require.Equal(t, 1, marks(t, q))
			queuetest.Remake(t, s, false, c.streams...)
			q = openQueue(t, s, "w1")
			require.Equal(t, c.waits, total(t, q))
			publish(t, q, submitted("march", 5)...)
			run(t, newFeeder(t, q, "w1"))
			require.Len(t, work(t, q, 5), 5)
			for _, in := range submitted("march", 5) {
				e, err := q.Ledger.Lookup(t.Context(), in.OrderNo)
				require.NoError(t, err)
				require.Equal(t, []any{order.OutcomeAccepted, in.ID}, []any{e.Record.Outcome(), e.Record.IntentID})
			}
			require.NoError(t, q.Trimmer.Trim(t.Context()))
			require.Eventually(t, func() bool { return marks(t, q) == 0 }, time.Minute, 5*time.Millisecond)
		})
	}
}

// A stream that was restored is the one that the mark is about.
func TestR15AMarkHoldsInARestoredStream(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "anna")
	publish(t, q, waitingIntents("bulk", "march", 5)...)
	_, err := imports.CancelBatch(t.Context(), q, "march", "anna")
	require.NoError(t, err)
	queuetest.Remake(t, s, true, "ORDERS_WAITING")
	q = openQueue(t, s, "w1")
	publish(t, q, waitingIntents("bulk", "march", 5)...)
	run(t, newFeeder(t, q, "w1"))
	for _, in := range waitingIntents("bulk", "march", 5) {
		require.Eventually(t, func() bool {
			e, err := q.Ledger.Lookup(t.Context(), in.OrderNo)
			return err == nil && e.Record.Outcome() == order.OutcomeCancelled
		}, time.Minute, 5*time.Millisecond)
	}
}

// A mark about one order names its places in the waiting room.
func TestR15AMarkOfOneOrderCancelsNothingOfAnotherStream(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "anna")
	publish(t, q, waitingIntents("bulk", "march", 5)...)
	_, err := imports.CancelOrder(t.Context(), q, "bulk-march-3", "anna")
	require.NoError(t, err)
	queuetest.Remake(t, s, false, "ORDERS_WAITING")
	q = openQueue(t, s, "w1")
	publish(t, q, submitted("march", 5)...)
	run(t, newFeeder(t, q, "w1"))
	require.Len(t, work(t, q, 5), 5)
	require.NoError(t, q.Trimmer.Trim(t.Context()))
	require.Eventually(t, func() bool { return marks(t, q) == 0 }, time.Minute, 5*time.Millisecond)
}

// A feeder remembers how far it has read a subject. In a waiting room that was made again while it ran, it
// begins at the first intent: a purge up to the last one that it moved would take the others.
func TestR13AFeederBeginsAnewInAnotherWaitingRoom(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	publish(t, q, waitingIntents("bulk", "march", 6)...)
	f := newFeeder(t, q, "w1")
	list(t, f)
	left, err := f.feed(t.Context(), 4)
	require.NoError(t, err)
	require.Equal(t, 4, left)
	work(t, q, 4)
	queuetest.Remake(t, s, false, "ORDERS_WAITING")
	in := waitingIntents("bulk", "april", 6)
	for i := range in {
		in[i].Batch = "march"
	}
	publish(t, q, in...)
	f.listNow()
	list(t, f)
	left, err = f.feed(t.Context(), 6)
	require.NoError(t, err)
	require.Equal(t, 6, left)
	require.Zero(t, total(t, q))
	require.Len(t, work(t, q, 6), 6)
}

// What was read before the waiting room was made again stays as it is until the next listing.
func TestR13AFeederMovesNothingThatItReadInAnotherWaitingRoom(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	publish(t, q, waitingIntents("bulk", "march", 3)...)
	f := newFeeder(t, q, "w1")
	list(t, f)
	queuetest.Remake(t, s, false, "ORDERS_WAITING")
	publish(t, q, submitted("march", 3)...)
	left, err := f.feed(t.Context(), 3)
	require.Zero(t, left)
	require.ErrorContains(t, err, "was made again")
	require.Equal(t, 3, total(t, q))
	f.listNow()
	list(t, f)
	left, err = f.feed(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, 3, left)
	work(t, q, 3)
}

// An approval, and a refusal, are about what waited then. Of a waiting room that was made again nothing goes, and
// another approval is asked for.
func TestADecisionIsAboutOneWaitingRoom(t *testing.T) {
	for name, decide := range map[string]func(a *imports.Approval){
		"approved": func(*imports.Approval) {},
		"half":     func(a *imports.Approval) { a.Given = a.Given[:1] },
		"refused":  func(a *imports.Approval) { a.Given, a.Refused = nil, &imports.Signature{Name: "bob"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			q := openQueue(t, s, "w1")
			rules(t, q, "imports")
			in := waitingIntents("bulk", "march", 6)
			publish(t, q, in[:3]...)
			stop := run(t, newFeeder(t, q, "w1"))
			asked(t, q, "march")
			if name != "approved" {
				stop()
			}
			approve(t, q, "march", queue.ToTheEnd)
			if name == "approved" {
				work(t, q, 3)
			} else {
				require.NoError(t, imports.ChangeApprovals(t.Context(), q, func(all *imports.Approvals) (bool, error) {
					a := all.Imports[imports.ImportToken("march")]
					a.Compared = false
					decide(a)
					return true, nil
				}))
			}
			queuetest.Remake(t, s, false, "ORDERS_WAITING")
			publish(t, q, in[3:]...)
			if name != "approved" {
				run(t, newFeeder(t, q, "w1"))
			}
			require.Eventually(t, func() bool {
				f, err := imports.ReadFeeding(t.Context(), q, 0)
				require.NoError(t, err)
				a := f.Approvals.Imports[imports.ImportToken("march")]
				return a.Why == "the waiting room was made again since the last decision about it" && len(a.Given) == 0 && a.Refused == nil
			}, time.Minute, 5*time.Millisecond)
			require.Equal(t, 3, total(t, q))
			approve(t, q, "march", queue.ToTheEnd)
			require.Len(t, work(t, q, 3), 3)
		})
	}
}
