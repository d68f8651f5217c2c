package settle_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// forgetCounts starts the broker again, without its delivery counts, as after a SIGKILL.
func forgetCounts(t *testing.T, s *queuetest.Broker) {
	t.Helper()
	require.NoError(t, s.JetStream(t).DeleteConsumer(t.Context(), "ORDERS", "workers"))
	s.Stop()
	s.Restart(t)
}

// R3: after a SIGKILL of the broker, every intent comes back as a first
// delivery. Exactly those that a worker had been given are in doubt.
func TestR3AKilledBrokerForgetsCountsAndNotDoubt(t *testing.T) {
	s := startBroker(t)
	a := openQueue(t, s, "a")
	publish(t, a, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"))
	pull(t, a, 2)
	forgetCounts(t, s)

	b := openQueue(t, s, "b")
	back := pull(t, b, 3)
	for i, d := range back {
		require.EqualValues(t, 1, d.Delivered)
		require.Equal(t, i < 2, d.CountLost, d.OrderNo())
		require.Equal(t, i < 2, d.History.Unsure, d.OrderNo())
	}
	stored := settleAs(t, b, back[0], report(order.Rejected, back[0].History))
	require.Equal(t, order.OutcomeUnknown, stored.Record.Outcome(), "the lost attempt may have created it")
	stored = settleAs(t, b, back[1], report(order.Duplicate, back[1].History))
	require.Equal(t, order.OutcomeAccepted, stored.Record.Outcome(), "the duplicate is the lost attempt")
	stored = settleAs(t, b, back[2], report(order.Rejected, back[2].History))
	require.Equal(t, order.OutcomeRejected, stored.Record.Outcome())
}

// Two workers that pull concurrently do not make each other's first deliveries
// doubtful. Neither does a broken network.
func TestR3ParallelPullsCauseNoDoubt(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"), intent("A-4", "i4"))
	for i, q := range []*queue.Queue{a, b, a, b} {
		d := pull(t, q, 1)[0]
		require.False(t, d.CountLost, i)
		require.False(t, d.History.Unsure, i)
		q.Worker.ForgetDeliveries() // as after a reconnect
	}
}

// R8: an order that takes the broker down with its worker comes back as a first
// delivery each time. It still becomes a suspect.
func TestR8LostCountsStillLeadToSuspicion(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	publish(t, q, intent("A-1", "i1"))
	require.False(t, pull(t, q, 1)[0].CountLost)
	var works []string
	for range 3 {
		forgetCounts(t, s)
		q = openQueue(t, s, "a")
		d := pull(t, q, 1)[0]
		works = append(works, d.Work.String())
		if d.Work == settle.WorkSubmit {
			require.NoError(t, q.Worker.NoteBegun(t.Context(), d))
		}
	}
	require.Equal(t, []string{"submit", "suspect", "suspect"}, works)
}

// R8: a suspect in doubt that the API is only asked about is no suspect of that delivery: however
// often it is looked up, it does not become poison. What posts it again is noted, and alone.
func TestR8ALookupIsNoSuspect(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	publish(t, q, intent("A-1", "i1"))
	pull(t, q, 1)
	suspect := func() *settle.Delivery {
		for {
			forgetCounts(t, s)
			q = openQueue(t, s, "a")
			d := pull(t, q, 1)[0]
			if d.Work == settle.WorkSuspect {
				return d
			}
			require.NoError(t, q.Worker.NoteBegun(t.Context(), d))
		}
	}
	submitted := 0
	handle := func(d *settle.Delivery, asks bool) {
		settle.NewHandler(q.Worker, settle.HandlerOptions{Asks: func(*order.Order, order.History) bool { return asks }, Submit: func(_ context.Context, s *order.Submission) *order.Report {
			submitted++
			require.Equal(t, asks, s.LookOnly)
			return &order.Report{End: order.EndLookup, Delay: time.Millisecond, History: s.History}
		}}).Handle(t.Context(), t.Context(), d, nil)
	}
	for range settle.PoisonAfter + 1 {
		handle(suspect(), true)
		rec := lookup(t, q, "A-1")
		require.Equal(t, []any{order.OutcomeNone, 0}, []any{rec.Outcome(), rec.Suspects})
	}
	handle(suspect(), false)
	require.Equal(t, []any{settle.PoisonAfter + 2, 1}, []any{submitted, lookup(t, q, "A-1").Suspects})
}

// A recreated stream counts from 1 again. The old marks mean nothing there.
func TestMarksOfAnotherStreamMeanNothing(t *testing.T) {
	s := startBroker(t)
	a := openQueue(t, s, "a")
	publish(t, a, intent("A-1", "i1"), intent("A-2", "i2"))
	pull(t, a, 2)
	queuetest.Remake(t, s.Server, false, "ORDERS")
	b := openQueue(t, s, "a")
	publish(t, b, intent("A-3", "i3"))
	require.False(t, pull(t, b, 1)[0].CountLost)
}

// queueLostInAttempt returns a worker's queue that was lost while the worker posted order A-1.
func queueLostInAttempt(t *testing.T) *queue.Queue {
	t.Helper()
	s := startBroker(t)
	a := openQueue(t, s, "a")
	publish(t, a, intent("A-1", "i1"))
	attempting(t, a, pull(t, a, 1)[0])
	stream, err := s.JetStream(t).Stream(t.Context(), "ORDERS")
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context()))
	return a
}

// The queue is lost with an attempt under way. What is enqueued again may exist already, with
// the first body.
func TestR3AnOpenNoteOfAnIntentThatIsGoneIsDoubt(t *testing.T) {
	a := queueLostInAttempt(t)
	withheld(t, a)
	rec := lookup(t, a, "A-1")
	require.Equal(t, order.OutcomeUnknown, rec.Outcome())
	require.True(t, rec.Unsure)
	require.Equal(t, hashOf(t, body("A-1")), rec.BodyHash)
	require.Equal(t, 1, rec.Settled, "nobody settled the first")
}

// The body of an intent that is gone is published again.
func TestR3ANewIntentInheritsAnOpenNoteOfItsBody(t *testing.T) {
	a := queueLostInAttempt(t)
	publish(t, a, intent("A-1", "i2"))
	d := pull(t, a, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	require.True(t, d.History.Unsure)
	settleAs(t, a, d, report(order.Rejected, d.History))
	rec := lookup(t, a, "A-1")
	require.Equal(t, []string{"i2", "unknown"}, []string{rec.IntentID, rec.Word})
}

// While the mark cannot be written, nothing of the pull may be acted on.
func TestR3WithoutItsMarkNothingIsWorkedOn(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a", func(c *queue.Config) { c.AckWait = shortAckWait })
	publish(t, q, intent("A-1", "i1"))
	require.NoError(t, s.JetStream(t).DeleteStream(t.Context(), "KV_ORDERPOST"))
	q.Worker.ExportHighWaterRead()
	ctx := t.Context()
	var got []*settle.Delivery
	require.NoError(t, q.Pull(ctx, 1, 5*time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
	require.Len(t, got, 1)
	require.Equal(t, settle.WorkNone, got[0].Work)
}

// R3: an order is delivered again after a note of its first delivery, and the
// worker goes down. If the broker is killed too, it may forget that second
// delivery and count the third one as the second, which the note explains. The
// note of a redelivery's beginning shows the difference. Found by the
// simulation.
func TestR3ARedeliveryThatTheBrokerForgetsIsInDoubt(t *testing.T) {
	s := startBroker(t)
	a := openQueue(t, s, "a")
	publish(t, a, intent("A-1", "i1"))
	first := pull(t, a, 1)[0]
	require.False(t, first.Redelivered(), "there is nothing yet that could explain a second one")
	r := report(order.Retry, first.History)
	r.End = order.EndSubmissionBudget
	settleAs(t, a, first, r)
	second := pull(t, a, 1)[0]
	require.False(t, second.History.Unsure, "the note explains the first delivery")
	require.True(t, second.Redelivered())
	require.NoError(t, a.Worker.NoteBegun(t.Context(), second))

	forgetCounts(t, s)
	b := openQueue(t, s, "b")
	third := pull(t, b, 1)[0]
	require.EqualValues(t, 1, third.ExportCounted())
	requireOneLost(t, third)
	fourth := again(t, third, b)
	require.EqualValues(t, 2, fourth.ExportCounted(), "as if it were the second")
	requireOneLost(t, fourth)
	stored := settleAs(t, b, fourth, report(order.Rejected, fourth.History))
	require.Equal(t, order.OutcomeUnknown, stored.Record.Outcome())
}

func requireOneLost(t *testing.T, d *settle.Delivery) {
	t.Helper()
	require.Equal(t, settle.WorkSubmit, d.Work)
	require.True(t, d.History.Unsure, "the second delivery may have posted it")
	require.Equal(t, 1, d.Unexplained)
}

// R2: the check is repeated while the mark cannot be written. It must give the
// same result each time.
func TestR3ACheckThatIsRepeatedKeepsItsDoubt(t *testing.T) {
	s := startBroker(t)
	a := openQueue(t, s, "a")
	publish(t, a, intent("A-1", "i1"))
	require.NoError(t, a.Worker.NoteSuspect(t.Context(), pull(t, a, 1)[0]))
	forgetCounts(t, s)
	b := openQueue(t, s, "b")
	d := pull(t, b, 1)[0]
	lost := d.Unexplained
	require.Equal(t, 1, lost)
	require.NoError(t, b.Worker.Check(t.Context(), []*settle.Delivery{d}))
	require.Equal(t, lost, d.Unexplained)
	require.EqualValues(t, 2, d.Delivered)
}

// A delivery that did nothing notes its number. If the broker was killed since
// and its count was reset, that number belongs to another delivery, which may
// have posted the order. Found by the simulation.
func TestR3GivingUpExplainsNothingToABrokerThatWasKilled(t *testing.T) {
	s := startBroker(t)
	a := openQueue(t, s, "a")
	publish(t, a, intent("A-1", "i1"))
	d := pull(t, a, 1)[0]
	d.ExportBeforeMark()
	require.NoError(t, a.Worker.GiveUp(t.Context(), d))
	require.Nil(t, lookup(t, a, "A-1"))
	require.True(t, again(t, d, a).History.Unsure)
}

// Nor does the note of an order that was not posted because the connection was
// lost. If the killed broker had confirmed a mark, the other delivery's worker
// knows that it is not the first. Found by the simulation.
func TestR3ALateNoteExplainsToAnotherBrokerWhatAMarkCovers(t *testing.T) {
	for name, marked := range map[string]bool{"marked": true, "killed before the mark": false} {
		t.Run(name, func(t *testing.T) {
			s := startBroker(t)
			a := openQueue(t, s, "a")
			publish(t, a, intent("A-1", "i1"))
			d := pull(t, a, 1)[0]
			if d.ExportBeforeRestart(); !marked {
				d.ExportBeforeMark()
			}
			settleAs(t, a, d, order.Report{End: order.EndLeaseLost, History: d.History})
			next := again(t, d, a)
			require.EqualValues(t, 2, next.ExportCounted())
			require.Equal(t, !marked, next.History.Unsure)
			require.Equal(t, !marked, next.Unexplained == 1)
		})
	}
}

// Two deliveries of one intent have the same number because the broker was
// killed in between. The one that did nothing does not touch the other one's
// note.
func TestR3GivingUpLeavesAnotherDeliverysNote(t *testing.T) {
	s := startBroker(t)
	a := openQueue(t, s, "a")
	publish(t, a, intent("A-1", "i1"))
	idle := pull(t, a, 1)[0]
	forgetCounts(t, s)
	b := openQueue(t, s, "b")
	busy := pull(t, b, 1)[0]
	busy.History.Unsure, busy.CountLost = false, false // as if the first one's mark had not been set
	h := busy.History
	h.Attempts = 1
	err := b.Worker.NoteAttempt(t.Context(), busy, h)
	require.NoError(t, err)
	require.NoError(t, a.Worker.GiveUp(t.Context(), idle))
	require.Equal(t, order.NoteAttempt, lookup(t, a, "A-1").Note)
}

// R2: of the marks that restores left, the one that reaches furthest counts for what waited.
func TestR2WhatWaitedIsCoveredByTheLastMarkOfARestore(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	birth, _, err := q.Store().Stream(t.Context())
	require.NoError(t, err)
	for key, upTo := range map[string]uint64{"seen.3": 9, "seen.7": 5} {
		_, err := q.Store().PutHighWaterMark(t.Context(), key, settle.HighWaterMark{Stream: birth, Waited: settle.StreamSeq{Seq: upTo, Birth: 1}}, 0)
		require.NoError(t, err)
	}
	for no, at := range map[string]settle.StreamSeq{"A-8": {Seq: 8, Birth: 1}, "A-10": {Seq: 10, Birth: 1}, "A-2": {Seq: 2, Birth: 2}} {
		publishWaited(t, q, no, at.String())
	}
	for _, d := range pull(t, q, 3) {
		require.Equal(t, d.OrderNo() == "A-8", d.CountLost, d.OrderNo())
	}
}
