package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// retried gives an order back after an attempt that failed.
func retried(t *testing.T, q *queue.Queue, d *settle.Delivery, wait time.Duration) {
	t.Helper()
	now := time.Now().UTC()
	report := order.Report{End: order.EndSubmissionBudget, Verdict: order.Retry, Status: 500, Reason: "status 500", Response: `{"error":"poison"}`,
		History: order.History{Attempts: 3, FirstAttemptAt: now, LastAttemptAt: now}, Delay: wait}
	_, err := q.Worker.Settle(t.Context(), d, &report, order.Decide(&report, order.Facts{}))
	require.NoError(t, err)
	d.Release()
}

// TestPendingOrders: one order that is retried is found among those that wait, with its
// last answer and the time of its next attempt; long lists come in pages.
func TestPendingOrders(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	first := intent("POISON", "p")
	first.Batch = "march"
	publish(t, q, first, intent("TAKEN", "t"))
	for _, d := range pull(t, q, 2) {
		if d.OrderNo() == "POISON" {
			retried(t, q, d, time.Hour)
		}
	}
	var rest []settle.Intent
	for i := range 600 {
		rest = append(rest, intent(fmt.Sprintf("Q-%03d", i), fmt.Sprintf("q%d", i)))
	}
	publish(t, q, rest...)

	list := func(f PendingFilter, from uint64, orders, most int) (out []PendingOrder, next uint64) {
		next, err := PendingOrders(t.Context(), q, f, from, orders, most, func(p PendingOrder) error { out = append(out, p); return nil })
		require.NoError(t, err)
		return out, next
	}
	got, next := list(PendingFilter{Retrying: true}, 0, 50, 0)
	require.Zero(t, next)
	require.Len(t, got, 1)
	p := got[0]
	require.Equal(t, []any{"POISON", StateRetrying, "march", 3, order.Retry, 500, `{"error":"poison"}`}, []any{p.OrderNo, p.State, p.Batch, p.Attempts, p.Verdict, p.Status, p.Answer()})
	require.WithinDuration(t, time.Now().Add(time.Hour), p.NextAt, 30*time.Minute)

	got, next = list(PendingFilter{}, 0, 50, 0)
	require.Len(t, got, 50)
	require.Equal(t, []string{StateRetrying, StateTaken, StateQueued}, []string{got[0].State, got[1].State, got[2].State})
	require.Equal(t, got[49].Seq+1, next)
	seen := len(got)
	for next > 0 {
		got, next = list(PendingFilter{}, next, 50, 0)
		seen += len(got)
	}
	require.Equal(t, 602, seen, "each order is on one page")
	got, next = list(PendingFilter{Batch: "march"}, 0, 50, 256)
	require.Len(t, got, 1)
	require.Equal(t, uint64(257), next, "a filter that matches little does not read the whole queue at once")
	got, next = list(PendingFilter{Batch: "april"}, next, 50, 0)
	require.Empty(t, got)
	require.Zero(t, next)
}
