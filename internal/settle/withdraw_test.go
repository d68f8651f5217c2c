package settle_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// cancels moves messages of an import that a person cancelled.
func cancels(t *testing.T, q *queue.Queue, ms []*settle.Message) []settle.Move {
	t.Helper()
	mark(t, q, "b")
	return move(t, q, ms)
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
			page := wait(t, q, covered("A-1", "march:1"))
			moveCut(t, q, page)
			meanwhile(t, q)
			before := lookup(t, q, "A-1")
			require.Equal(t, []settle.Move{settle.MovedBefore}, cancels(t, q, page))
			require.Equal(t, before, lookup(t, q, "A-1"))
			require.Empty(t, waiting(t, q))
			requireBalanced(t, q)
		})
	}
}

// Two copies of one submission wait, and another submission of the order_no. Each
// submission is withdrawn once, and none counts in the queue's books.
func TestR13EachSubmissionIsWithdrawnOnce(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, covered("A-1", "march:1"), covered("A-1", "april:1"))
	twice := *page[0]
	require.Equal(t, []settle.Move{settle.Withdrawn, settle.MoveLater, settle.MoveLater}, cancels(t, q, append(page, &twice)))
	require.Equal(t, []settle.Move{settle.MovedBefore, settle.Withdrawn}, move(t, q, append([]*settle.Message{&twice}, waiting(t, q)...)))
	require.Empty(t, waiting(t, q))
	rec := lookup(t, q, "A-1")
	require.Equal(t, order.OutcomeCancelled, rec.Outcome())
	require.Zero(t, rec.Settled)
	require.True(t, rec.Unqueued)
	for _, id := range []string{"march:1", "april:1"} {
		require.True(t, rec.Knows(id, hashOf(t, body("A-1"))), "%s: a copy that comes later is recognised", id)
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
			page := wait(t, q, covered("A-1", "march:1"))
			require.Equal(t, []settle.Move{settle.MoveBlocked}, cancels(t, q, page))
			settleAs(t, q, pull(t, q, 1)[0], end)
			requireDrained(t, q)
			require.Equal(t, []settle.Move{settle.Withdrawn}, move(t, q, page))
			rec := lookup(t, q, "A-1")
			require.Equal(t, 1, rec.Settled)
			require.True(t, rec.Knows("march:1", hashOf(t, body("A-1"))))
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

// The same, and a worker posted it before the outcome was stored, and died. The next
// delivery does not believe the outcome.
func TestR15ALateOutcomeOfAFeederIsTakenBack(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	withdrawn(t, q, covered("A-1", "march:1"))
	publish(t, q, covered("A-1", "march:1"))
	d := again(t, pull(t, q, 1)[0], q)
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, q.Worker.Complete(t.Context(), d))
	requireDrained(t, q)
	rec := lookup(t, q, "A-1")
	require.Equal(t, []any{"unknown", true, "", 1}, []any{rec.Word, rec.Unsure, rec.By, rec.Settled})
	require.Equal(t, "march:1", letterOf(t, q, "A-1").IntentID)
	requireBalanced(t, q)
}

// The same, and a producer used the id for another body, which is in the queue. The doubt is about that
// one. Nobody can have posted one that is invalid, whatever waited.
func TestR15WhatIsTakenBackIsTheBodyThatWasDelivered(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	other := func(no string) []byte { return fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"qty":"2"}`, no) }
	invalid := func(no string) []byte { return fmt.Appendf(nil, `{"order_no":%q}`, no) }
	for no, c := range map[string]struct{ waited, queued func(string) []byte }{"another": {body, other}, "valid": {invalid, other}, "invalid": {body, invalid}} {
		in := covered(no, no)
		in.Body = c.waited(no)
		withdrawn(t, q, in)
		in.Body = c.queued(no)
		publish(t, q, in)
		require.NoError(t, q.Worker.Complete(t.Context(), again(t, pull(t, q, 1)[0], q)))
		requireDrained(t, q)
		rec := lookup(t, q, no)
		if no == "invalid" {
			require.Equal(t, []any{"cancelled", "anna", hashOf(t, body(no))}, []any{rec.Word, rec.By, rec.BodyHash})
			continue
		}
		require.Equal(t, []any{"unknown", "", hashOf(t, other(no))}, []any{rec.Word, rec.By, rec.BodyHash})
		require.Equal(t, rec.BodyHash, letterOf(t, q, no).BodyHash)
	}
	requireBalanced(t, q)
}

// A publish of a move that failed a moment ago may be on its way: it would bring the intent
// into the queue beside its outcome. Nothing is withdrawn until that is over.
func TestR13NothingIsWithdrawnWhileAMoveMayBeOnItsWay(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, covered("A-1", "march:1"))
	store := q.Store()
	q.Ledger.ExportSetStore(failsToPublish{store})
	_, err := q.Mover.Move(t.Context(), whole(q, page))
	require.Error(t, err)
	require.True(t, q.Mover.MoveUnderWay())
	q.Ledger.ExportSetStore(store)
	require.Equal(t, []settle.Move{settle.MoveLater}, cancels(t, q, page))
	require.Nil(t, lookup(t, q, "A-1"))
}

// failsToPublish is a store whose publishes get no answer.
type failsToPublish struct{ settle.Store }

func (failsToPublish) PublishIntents(_ context.Context, ms []*settle.Message, _ func() error) []settle.Published {
	out := make([]settle.Published, len(ms))
	for i := range out {
		out[i].Err = context.DeadlineExceeded
	}
	return out
}
