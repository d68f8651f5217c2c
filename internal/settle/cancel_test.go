package settle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

func batchOf(from, to int, batch string) (in []settle.Intent) {
	for i := from; i <= to; i++ {
		no := fmt.Sprintf("C-%d", i)
		in = append(in, settle.Intent{OrderNo: no, Body: body(no), ID: fmt.Sprintf("%s:%d", batch, i), Batch: batch})
	}
	return in
}

// TestCancelLeavesWhatWasDelivered: a worker may be posting a delivered intent
// at this moment, whatever the results say.
func TestCancelLeavesWhatWasDelivered(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, batchOf(1, 300, "b")...)
	publish(t, q, batchOf(301, 310, "other")...)
	inHand := pull(t, q, 3)
	c, err := books.CancelBatch(t.Context(), q, "b", "a person")
	require.NoError(t, err)
	require.Equal(t, settle.Cancelled{Withdrawn: 297, Started: 3}, c)
	counts, err := q.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 3+10, counts.Pending, "the withdrawn ones are gone, another import's are not")
	for _, d := range inHand {
		require.Equal(t, order.OutcomeAccepted, settleAs(t, q, d, report(order.Accepted, d.History)).Record.Outcome())
	}
	for _, d := range pull(t, q, 10) { // deliveries go on
		require.Equal(t, "other", d.Intent.Batch)
		settleAs(t, q, d, report(order.Accepted, d.History))
	}
	requireDrained(t, q)
	a, err := books.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	require.Equal(t, map[string]uint64{"accepted": 13, "cancelled": 297}, a.Outcomes)
	require.Zero(t, a.Letters, "who withdraws an order needs no letter about it")
	entry, err := q.Lookup(t.Context(), "C-300")
	require.NoError(t, err)
	require.Equal(t, "a person", entry.Record.By)
	require.Zero(t, entry.Record.Attempts)
}

// TestCancelCrashedHalfway: the outcome is written and the intent still stored.
// Its delivery finds the outcome, and nothing is posted.
func TestCancelCrashedHalfway(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, batchOf(1, 1, "b")...)
	require.NoError(t, q.ExportCancelHalf(t.Context(), "a person", books.PendingOfBatch(t.Context(), q, "b")))
	ds := pull(t, q, 1)
	require.Equal(t, settle.WorkSettled, ds[0].Work)
	require.NoError(t, q.Complete(t.Context(), ds[0]))
	ds[0].Release()
	requireDrained(t, q)
	entry, err := q.Lookup(t.Context(), "C-1")
	require.NoError(t, err)
	require.Equal(t, order.OutcomeCancelled, entry.Record.Outcome())
	require.Equal(t, 1, entry.Record.Settled)
}

// TestCancelKeepsDoubt: an earlier attempt of the order_no may have created the
// order. Withdrawing a later intent does not prove that it does not exist.
func TestCancelKeepsDoubt(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, batchOf(1, 2, "b")...)
	ds := pull(t, q, 2)
	doubtful := report(order.Unsure, ds[0].History)
	doubtful.End, doubtful.History.Unsure = order.EndTotalBudget, true
	settleAs(t, q, ds[0], doubtful)
	settleAs(t, q, ds[1], report(order.Accepted, ds[1].History))
	requireDrained(t, q)
	publish(t, q, batchOf(1, 2, "again")...)
	c, err := books.CancelBatch(t.Context(), q, "again", "a person")
	require.NoError(t, err)
	require.Equal(t, 2, c.Withdrawn)
	for no, want := range map[string]order.Outcome{"C-1": order.OutcomeUnknown, "C-2": order.OutcomeAccepted} {
		entry, err := q.Lookup(t.Context(), no)
		require.NoError(t, err)
		require.Equal(t, want, entry.Record.Outcome(), no)
		require.Equal(t, 2, entry.Record.Settled, no)
	}
	a, err := books.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
}

// TestCancelCountsWorkersMarks: a broker that was killed has forgotten what it
// delivered. The workers' high-water marks have not.
func TestCancelCountsWorkersMarks(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, batchOf(1, 5, "b")...)
	require.NoError(t, q.ExportAdvance(t.Context(), 2)) // as if a worker had been given 1 and 2 before the kill
	c, err := books.CancelBatch(t.Context(), q, "b", "a person")
	require.NoError(t, err)
	require.Equal(t, settle.Cancelled{Withdrawn: 3, Started: 2}, c)
}

// TestCancelWakesWaitingPulls: a pull that waits while the pause ends gets what
// is published afterwards.
func TestCancelWakesWaitingPulls(t *testing.T) {
	s := startBroker(t)
	q, other := openQueue(t, s, "w1"), openQueue(t, s, "person")
	got := make(chan *settle.Delivery, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- q.Pull(t.Context(), 1, 30*time.Second, func(ds []*settle.Delivery) { got <- ds[0] })
	}()
	publish(t, other, batchOf(1, 1, "b")...)
	first := <-got
	require.NoError(t, <-ended)
	settleAs(t, q, first, report(order.Accepted, first.History))
	go func() {
		ended <- q.Pull(t.Context(), 1, 30*time.Second, func(ds []*settle.Delivery) { got <- ds[0] })
	}()
	c, err := books.CancelOrder(t.Context(), other, "C-9", "a person")
	require.NoError(t, err)
	require.Zero(t, c)
	publish(t, other, batchOf(2, 2, "b")...)
	select {
	case d := <-got:
		require.NoError(t, <-ended)
		settleAs(t, q, d, report(order.Accepted, d.History))
	case <-time.After(10 * time.Second):
		t.Fatal("the waiting pull was not woken")
	}
	requireDrained(t, q)
}

// TestCancelNoticesDeliveries: Cancel notices that somebody ended the pause.
func TestCancelNoticesDeliveries(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	publish(t, q, batchOf(1, 3, "b")...)
	js := jetStream(t, s)
	_, err := q.Cancel(t.Context(), "a person", func(visit func([]*settle.Pending) error) error {
		_, err := js.PauseConsumer(t.Context(), "ORDERS", "workers", time.Now().Add(-time.Second))
		require.NoError(t, err)
		for _, d := range pull(t, q, 3) {
			d.Release()
		}
		return books.EachPending(t.Context(), q, "b", visit)
	})
	require.ErrorContains(t, err, "the broker delivered intents while they were withdrawn")
	for i := 1; i <= 3; i++ {
		rec := lookup(t, q, fmt.Sprintf("C-%d", i))
		require.Equal(t, order.OutcomeUnknown, rec.Outcome(), "a worker may have posted it")
		require.False(t, rec.NeedsLetter(), "a person knows of it")
	}
	requireBalanced(t, q)
	_, err = q.Resolve(t.Context(), "C-1", 0, order.OutcomeRejected, anna)
	require.NoError(t, err)
}

// TestCancellationsDoNotEndEachOthersPause: one that begins later and ends
// earlier leaves deliveries paused, and so does one that ends while another
// works. Found by the simulation.
func TestCancellationsDoNotEndEachOthersPause(t *testing.T) {
	s := startBroker(t)
	q, other := openQueue(t, s, "w1"), openQueue(t, s, "ben")
	js := jetStream(t, s)
	publish(t, q, batchOf(1, 3, "b")...)
	publish(t, q, batchOf(4, 6, "other")...)
	paused := func() time.Duration {
		c, err := js.Consumer(t.Context(), "ORDERS", "workers")
		require.NoError(t, err)
		return c.CachedInfo().PauseRemaining
	}
	_, err := q.Cancel(t.Context(), "anna", func(visit func([]*settle.Pending) error) error {
		_, err := books.CancelBatch(t.Context(), other, "other", "ben")
		require.NoError(t, err)
		require.Greater(t, paused(), 30*time.Second, "anna's goes on")
		return books.EachPending(t.Context(), q, "b", visit)
	})
	require.NoError(t, err)
	require.Less(t, paused(), time.Second)

	publish(t, q, batchOf(7, 9, "b")...)
	reached, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error)
	_, err = q.Cancel(t.Context(), "anna", func(visit func([]*settle.Pending) error) error {
		go func() {
			_, err := other.Cancel(t.Context(), "ben", func(func([]*settle.Pending) error) error {
				close(reached)
				<-goOn
				return nil
			})
			done <- err
		}()
		<-reached
		return books.EachPending(t.Context(), q, "b", visit)
	})
	require.NoError(t, err)
	require.Greater(t, paused(), 30*time.Second, "ben's goes on")
	close(goOn)
	require.NoError(t, <-done)
	requireBalanced(t, q)
}
