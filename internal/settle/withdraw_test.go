package settle_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

func withdraw(t *testing.T, q *queue.Queue, ms []*settle.Message) settle.Cancelled {
	t.Helper()
	c, err := q.Withdraw(t.Context(), "anna", ms)
	require.NoError(t, err)
	require.Empty(t, waiting(t, q))
	return c
}

// What a feeder stored in the queue, and did not remove from the waiting room, is
// left to its worker.
func TestR13WhatWasMovedIsNotWithdrawn(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, q *queue.Queue){
		"it is pending": func(*testing.T, *queue.Queue) {},
		"it is in hand": func(t *testing.T, q *queue.Queue) { pull(t, q, 1) },
		"it was rejected": func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			page := wait(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "march:1", Batch: "march"})
			moveCut(t, q, page)
			meanwhile(t, q)
			before := lookup(t, q, "A-1")
			require.Zero(t, withdraw(t, q, page))
			require.Equal(t, before, lookup(t, q, "A-1"))
			requireBalanced(t, q)
		})
	}
}

// Two copies of one submission wait, and another submission of the order_no. Each
// submission is withdrawn once, and none counts in the queue's books.
func TestR13EachSubmissionIsWithdrawnOnce(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "march:1"}, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "april:1"})
	twice := *page[0]
	require.Equal(t, settle.Cancelled{Withdrawn: 2}, withdraw(t, q, append(page, &twice)))
	rec := lookup(t, q, "A-1")
	require.Equal(t, order.OutcomeCancelled, rec.Outcome())
	require.Zero(t, rec.Settled)
	require.True(t, rec.Unqueued)
	for _, id := range []string{"march:1", "april:1"} {
		require.True(t, rec.Knows(id), "%s: a copy that comes later is recognised", id)
	}
	requireBalanced(t, q)
}

// Another submission of the order is in the queue: the record is about that one. Once
// it has its outcome, the waiting one is withdrawn and changes no acceptance.
func TestR13WhatWaitsBehindAnotherSubmissionIsLeft(t *testing.T) {
	for name, end := range map[string]order.Report{"accepted": report(order.Accepted, order.History{}), "rejected": rejected()} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			publish(t, q, intent("A-1", "direct"))
			page := wait(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "march:1"})
			c, err := q.Withdraw(t.Context(), "anna", page)
			require.NoError(t, err)
			require.Equal(t, settle.Cancelled{Blocked: 1}, c)
			settleAs(t, q, pull(t, q, 1)[0], end)
			requireDrained(t, q)
			require.Equal(t, 1, withdraw(t, q, page).Withdrawn)
			rec := lookup(t, q, "A-1")
			require.Equal(t, 1, rec.Settled)
			require.True(t, rec.Knows("march:1"))
			if name == "accepted" {
				require.Equal(t, order.OutcomeAccepted, rec.Outcome())
			} else {
				require.Equal(t, order.OutcomeCancelled, rec.Outcome())
			}
			publish(t, q, intent("A-1", "next"))
			settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
		})
	}
}

// A feeder that was frozen stores an intent after it was withdrawn (the gap of R13).
// The worker recognises the outcome, posts nothing and counts the intent.
func TestR13AWithdrawnIntentThatIsStoredLateIsNotPosted(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "march:1"})
	require.Equal(t, 1, withdraw(t, q, page).Withdrawn)
	late := intent("A-1", "march:1")
	late.Body = body("A-1")
	publish(t, q, late)
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, q.Complete(t.Context(), d))
	requireDrained(t, q)
	require.Equal(t, order.OutcomeCancelled, lookup(t, q, "A-1").Outcome())
	require.Equal(t, 1, lookup(t, q, "A-1").Settled)
	requireBalanced(t, q)
}

// While a withdrawal waits for the results, the publish of a move arrives, and a worker
// begins to work on the order. The withdrawal decides again: the order is that worker's.
func TestR13AWithdrawalThatAWorkerOvertookDecidesAgain(t *testing.T) {
	server := startBroker(t)
	q, w := openQueue(t, server, "operator"), openQueue(t, server, "w1")
	page := wait(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "march:1"})
	var d *settle.Delivery
	s := &cancelStore{Store: q.ExportStore()}
	s.putRecord = func(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
		s.putRecord = nil
		moveCut(t, w, page)
		d = pull(t, w, 1)[0]
		require.NoError(t, w.NoteBegun(t.Context(), d))
		return s.PutRecord(ctx, token, r, expect)
	}
	q.ExportSetStore(s)
	require.Zero(t, withdraw(t, q, page))
	require.Equal(t, order.OutcomeNone, lookup(t, w, "A-1").Outcome())
	settleAs(t, w, d, report(order.Accepted, d.History))
	requireDrained(t, w)
	requireBalanced(t, w)
}

// A withdrawal is held up between its reads. Meanwhile another intent of the order_no is
// stored and recorded, and not yet acknowledged. Its redelivery must find its outcome.
func TestR13AWithdrawalReplacesNoRecordThatARedeliveryNeeds(t *testing.T) {
	server := startBroker(t)
	q, w := openQueue(t, server, "operator"), openQueue(t, server, "w1")
	page := wait(t, q, settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "march:1"})
	var d *settle.Delivery
	q.ExportSetStore(&meanwhile{Store: q.ExportStore(), afterIntent: func() {
		publish(t, w, intent("A-1", "i2"))
		d = pull(t, w, 1)[0]
		writeOnly(t, w, d, report(order.Rejected, d.History))
	}})
	counts, err := q.Withdraw(t.Context(), "anna", page)
	require.NoError(t, err)
	require.Equal(t, settle.Cancelled{Blocked: 1}, counts)
	d = again(t, d, w)
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, w.Complete(t.Context(), d))
	requireDrained(t, w)
	require.Equal(t, 1, withdraw(t, q, page).Withdrawn)
	requireBalanced(t, w)
}
