package settle_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// wait puts intents into the waiting room and returns them as a feeder reads them.
func wait(t *testing.T, q *queue.Queue, in ...settle.Intent) []*settle.Message {
	t.Helper()
	for i := range in {
		in[i].Lane = order.BulkLane
	}
	publish(t, q, in...)
	return waiting(t, q)
}

// waiting returns what waits without a time.
func waiting(t *testing.T, q *queue.Queue) (all []*settle.Message) {
	t.Helper()
	list, _, err := q.Waiting.Now(t.Context())
	require.NoError(t, err)
	for _, w := range list {
		page, _, err := q.Waiting.Page(t.Context(), w.Subject, 0, w.Count)
		require.NoError(t, err)
		all = append(all, page...)
	}
	return all
}

// whole returns messages as a feeder has them that reads from the first on.
func whole(q *queue.Queue, ms []*settle.Message) settle.WaitingGroup {
	return settle.WaitingGroup{Messages: ms, Whole: true, Birth: q.Waiting.Birth()}
}

func move(t *testing.T, q *queue.Queue, ms []*settle.Message) []settle.Move {
	t.Helper()
	ends, err := q.Mover.Move(t.Context(), whole(q, ms))
	require.NoError(t, err)
	return ends
}

// keepsWaiting is a store whose removals from the waiting room fail: the feeder is
// cut off before them.
type keepsWaiting struct{ settle.Store }

func (keepsWaiting) DeleteWaiting(context.Context, uint64) error { return errors.New("cut off") }

func (keepsWaiting) PurgeWaiting(context.Context, string, uint64) error { return errors.New("cut off") }

// moveCut moves and is cut off before it removes anything.
func moveCut(t *testing.T, q *queue.Queue, ms []*settle.Message) {
	t.Helper()
	store := q.Store()
	q.Ledger.ExportSetStore(keepsWaiting{store})
	_, err := q.Mover.Move(t.Context(), whole(q, ms))
	require.ErrorContains(t, err, "cut off")
	q.Ledger.ExportSetStore(store)
}

// wakesElsewhere is a store whose process is frozen after it asked for the broker's
// run some times, and wakes with a connection to the next run.
type wakesElsewhere struct {
	settle.Store
	times atomic.Int32
}

func (s *wakesElsewhere) ServerID() string {
	if s.times.Add(-1) < 0 {
		return "next run"
	}
	return s.Store.ServerID()
}

func TestR13AMoveKeepsTheIntent(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	in := settle.Intent{OrderNo: "A-1", Body: body("A-1"), ID: "march:1", Batch: "march", Source: "march.csv:2", Traceparent: "00-1-2-01"}
	unnamed := settle.Intent{OrderNo: "A-2", Body: body("A-2")}
	page := wait(t, q, in, unnamed)
	require.Equal(t, []settle.Move{settle.Moved, settle.Moved}, move(t, q, page))
	require.Empty(t, waiting(t, q))
	byNo := make(map[string]*settle.Delivery)
	for _, d := range pull(t, q, 2) {
		byNo[d.OrderNo()] = d
		require.Equal(t, settle.WorkSubmit, d.Work)
	}
	a := byNo["A-1"].Intent
	require.Equal(t, []string{"march:1", "march", "march.csv:2", "00-1-2-01"}, []string{a.ID, a.Batch, a.Source, a.Traceparent})
	require.Regexp(t, `^seq:\d+@\d+$`, byNo["A-2"].Intent.ID, "an intent without an ID is named after its place in the waiting room")
	for _, d := range byNo {
		settleAs(t, q, d, report(order.Accepted, order.History{}))
	}
	requireDrained(t, q)
	require.True(t, lookup(t, q, "A-1").Waited)
	requireBalanced(t, q)
}

// A feeder is cut off between the publish and the removal. The next one recognises
// the intent wherever it is by then, and stores it no second time.
func TestR13AMoveThatIsCutOffIsFinished(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, q *queue.Queue){
		"it is pending": func(*testing.T, *queue.Queue) {},
		"it is in hand": func(t *testing.T, q *queue.Queue) { pull(t, q, 1) },
		"it was accepted": func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
			requireDrained(t, q)
		},
		"it was rejected": func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
		},
		"it was rejected, and its correction was accepted": func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
			publish(t, q, intent("A-1", "corrected"))
			settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
			requireDrained(t, q)
		},
		"it was rejected and replayed": func(t *testing.T, q *queue.Queue) {
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
			require.Equal(t, settle.Replayed, replay(t, q, letterOf(t, q, "A-1"), settle.ReplayOptions{}))
			settleAs(t, q, pull(t, q, 1)[0], rejected())
			requireDrained(t, q)
		},
	} {
		for kind := range 4 {
			restarted, whole := kind&1 != 0, kind&2 != 0
			t.Run(fmt.Sprintf("%s, broker restarted: %t, whole: %t", name, restarted, whole), func(t *testing.T) {
				s := startBroker(t)
				q := openQueue(t, s, "w1")
				moveCut(t, q, wait(t, q, intent("A-1", "march:1")))
				meanwhile(t, q)
				before, err := q.Census.Count(t.Context())
				require.NoError(t, err)
				if restarted { // it has forgotten the IDs of what left the stream
					q.Close()
					s.Stop()
					s.Restart(t)
					q = openQueue(t, s, "w2")
				}
				ends, err := q.Mover.Move(t.Context(), settle.WaitingGroup{Messages: waiting(t, q), Whole: whole, Birth: q.Waiting.Birth()})
				require.NoError(t, err)
				require.Equal(t, []settle.Move{settle.MovedBefore}, ends)
				require.Eventually(t, func() bool { return len(waiting(t, q)) == 0 }, time.Minute, time.Millisecond)
				after, err := q.Census.Count(t.Context())
				require.NoError(t, err)
				require.Equal(t, before.LastIntent, after.LastIntent, "stored a second time")
			})
		}
	}
}

// purgesOnly is a store that removes no single intent from the waiting room.
type purgesOnly struct{ settle.Store }

func (purgesOnly) DeleteWaiting(context.Context, uint64) error { return errors.New("singly") }

// What is moved leaves in one purge, which costs the broker one fsync and not one for each.
func TestR13WhatIsMovedLeavesInOnePurge(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, intent("A-1", "march:1"), intent("A-2", "march:2"))
	q.Ledger.ExportSetStore(purgesOnly{q.Store()})
	require.Equal(t, []settle.Move{settle.Moved, settle.Moved}, move(t, q, page))
	require.Empty(t, waiting(t, q))
}

// A producer that builds its subjects by hand may use one that is a wildcard as a filter.
func TestR13NoPurgeByAWildcard(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, intent("A-1", "march:1"))
	odd := []*settle.Message{q.Producer.IntentMessage(intent("B-1", "b:1")), q.Producer.IntentMessage(intent("B-2", "b:2"))}
	for _, m := range odd {
		m.Subject = "orders.waiting.bulk.*"
	}
	for _, p := range q.Store().PublishIntents(t.Context(), odd, t.Context().Err) {
		require.NoError(t, p.Err)
	}
	odd, _, err := q.Waiting.Page(t.Context(), "orders.waiting.bulk.*", page[0].Seq+1, 10)
	require.NoError(t, err)
	require.Len(t, odd, 2)
	require.Equal(t, []settle.Move{settle.Moved, settle.Moved}, move(t, q, odd))
	left := waiting(t, q)
	require.Len(t, left, 1)
	require.Equal(t, "A-1", settle.WaitingOrderNo(left[0]))
}

// An intent whose time is in its header alone waits for it.
func TestR13AnIntentThatWaitsForItsHeader(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	in := intent("A-1", "march:1")
	in.NotBefore = time.Now().Add(20 * time.Second)
	ms := []*settle.Message{q.Producer.IntentMessage(in)}
	ms[0].Subject = "orders.waiting.bulk.-"
	for _, p := range q.Store().PublishIntents(t.Context(), ms, t.Context().Err) {
		require.NoError(t, p.Err)
	}
	require.Equal(t, []settle.Move{settle.MoveBlocked}, move(t, q, waiting(t, q)))
	require.Len(t, waiting(t, q), 1)
}

// Another intent of the order_no is pending. The waiting one stays, and is judged by
// the worker when its turn comes: here as a conflict with its dead letter.
func TestR13ABlockedIntentWaits(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "direct"))
	other := intent("A-1", "march:1")
	other.Body = []byte(`{"order_no":"A-1","timeout":30,"qty":"2"}`)
	page := wait(t, q, other)
	require.Equal(t, []settle.Move{settle.MoveBlocked}, move(t, q, page))
	require.Len(t, waiting(t, q), 1)
	settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	requireDrained(t, q)
	require.Equal(t, []settle.Move{settle.Moved}, move(t, q, page))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkConflict, d.Work)
	_, err := q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	requireDrained(t, q)
	require.True(t, letterOf(t, q, "A-1").Conflict)
	requireBalanced(t, q)
}

// The ID was used for another order a moment ago. The broker would take the intent
// for a duplicate; it must not get lost.
func TestR13AnIDThatWasUsedForAnotherOrderLosesNone(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	publish(t, q, intent("A-1", "same"))
	page := wait(t, q, intent("A-2", "same"))
	require.Equal(t, []settle.Move{settle.MoveBlocked}, move(t, q, page))
	settleAs(t, q, pull(t, q, 1)[0], report(order.Accepted, order.History{}))
	requireDrained(t, q)
	require.Equal(t, []settle.Move{settle.MoveBlocked}, move(t, q, page))
	require.Len(t, waiting(t, q), 1)
}

func TestR13WhatCanNeverBeSentIsMovedToItsDeadLetter(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, settle.Intent{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1"}`), ID: "a"}, settle.Intent{OrderNo: "A-2", Body: []byte(`not JSON`), ID: "b"})
	require.Equal(t, []settle.Move{settle.Moved, settle.Moved}, move(t, q, page))
	var names []string
	for _, d := range pull(t, q, 2) {
		require.Equal(t, settle.WorkInvalid, d.Work)
		names = append(names, d.OrderNo())
	}
	require.ElementsMatch(t, []string{"A-1", "waiting-2"}, names)
}

// A move whose context is over publishes nothing.
func TestR13AMoveAfterItsTermMovesNothing(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, intent("A-1", "march:1"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := q.Mover.Move(ctx, whole(q, page))
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, waiting(t, q), 1)
	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.LastIntent)
}

// A feeder that wakes with a connection to another run of the broker publishes nothing,
// even before it hears that it lost the former one: that run forgets the IDs of intents
// that were settled.
func TestR13AMoveIntoAnotherRunOfTheBrokerMovesNothing(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	page := wait(t, q, intent("A-1", "march:1"), intent("A-2", "march:2"))
	store := q.Store()
	for asked, want := range [][]settle.Move{
		{settle.MoveLater, settle.MoveLater}, // when the move begins
		{settle.MoveLater, settle.MoveLater}, // before it publishes
		{settle.Moved, settle.MoveLater},     // before the first message
	} {
		elsewhere := &wakesElsewhere{Store: store}
		elsewhere.times.Store(int32(asked) + 1)
		q.Ledger.ExportSetStore(elsewhere)
		ends, err := q.Mover.Move(t.Context(), whole(q, page))
		require.ErrorContains(t, err, "the connection to the broker was lost during a move")
		require.Equal(t, want, ends, "woken after question %d", asked+1)
	}
	q.Ledger.ExportSetStore(store)
	require.Equal(t, []settle.Move{settle.MovedBefore, settle.Moved}, move(t, q, page))
}

// A producer guesses the ID of an intent that waits, and stores another body under it first. The
// intent that waits is no copy of that one: it is judged by itself, and its body is kept.
func TestR13AnIDProvesNothingWithoutTheBody(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	forgetIDs(t, s)
	ms := wait(t, q, intent("A-1", "i1"))
	forged := intent("A-1", "i1")
	forged.Body = correction("").Body
	publish(t, q, forged)
	require.Equal(t, []settle.Move{settle.MoveBlocked}, move(t, q, ms), "while the other one is pending")
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)

	require.Equal(t, []settle.Move{settle.Moved}, move(t, q, ms))
	require.Empty(t, waiting(t, q))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkConflict, d.Work)
	handle(t, q, d)
	requireDrained(t, q)
	l := letterOf(t, q, "A-1")
	require.True(t, l.Conflict)
	require.Equal(t, body("A-1"), l.Body)
	rec := lookup(t, q, "A-1")
	require.Equal(t, hashOf(t, forged.Body), rec.BodyHash)
	require.Equal(t, 2, rec.Settled)
	require.Equal(t, []settle.Move{settle.MovedBefore}, move(t, q, ms), "by a feeder that was cut off before the removal")
	requireBalanced(t, q)
}
