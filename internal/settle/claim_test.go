package settle_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
)

// shortAckWait ends within a test, and is longer than a busy machine stands still.
const shortAckWait = 4 * time.Second

func TestR7ADisconnectEndsEveryClaimAndItsAttempts(t *testing.T) {
	cut := &netcut.Dialer{}
	q := openCut(t, startBroker(t), "a", cut)
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"))
	ds := pull(t, q, 2)
	stop := context.Canceled
	ctx, cancel := ds[0].Lease().Bound(t.Context(), order.ErrLeaseLost)
	defer cancel()
	require.True(t, q.Worker.ReconnectGraceUntil().IsZero())
	cut.Break()
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), order.ErrLeaseLost)
	require.NotErrorIs(t, context.Cause(ctx), stop)
	require.Eventually(t, func() bool { return !ds[1].Lease().Valid() }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return !q.Worker.ReconnectGraceUntil().IsZero() }, time.Minute, time.Millisecond)
	late, done := ds[1].Lease().Bound(t.Context(), order.ErrLeaseLost)
	defer done()
	require.ErrorIs(t, context.Cause(late), order.ErrLeaseLost, "a context made afterwards is over, too")
}

// R7: the consumer's AckWait is changed under a worker. Its claims relied on the former
// one, so they are over. Later ones rely on the new one.
func TestR7AChangedAckWaitEndsEveryClaim(t *testing.T) {
	t.Parallel()
	const former = 4 * shortAckWait
	q := openQueue(t, startBroker(t), "a", func(c *queue.Config) { c.AckWait = former })
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"))
	before := pull(t, q, 1)[0]
	require.Equal(t, former, q.Claims.Align(former))
	require.True(t, before.Lease().Valid())
	require.Equal(t, former, q.Claims.Align(shortAckWait))
	require.False(t, before.Lease().Valid())
	require.Equal(t, shortAckWait-shortAckWait/10, q.Claims.Term())
	after := pull(t, q, 1)[0]
	require.True(t, after.Lease().Valid())
	pulled, _ := after.Lease().ExportSince()
	require.Eventually(t, func() bool { // it is extended in time for the new term
		since, over := after.Lease().ExportSince()
		return since.Sub(pulled) > shortAckWait && !over
	}, time.Minute, 10*time.Millisecond)
}

// R7: "no responders" is an answer, too, but not the consumer's. It extends nothing.
func TestR7OnlyTheConsumerExtendsAClaim(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a", func(c *queue.Config) { c.AckWait = time.Second })
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	forgetCounts(t, s) // nobody hears progress requests any more
	require.Eventually(t, func() bool { return !d.Lease().Valid() }, time.Minute, 10*time.Millisecond)
}

// R7: a message that answers a pull may arrive after the connection was lost over which
// it was asked for. The broker may have given it to another worker since.
func TestR7APullOverALostConnectionClaimsNothing(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	stored, err := q.Store().IntentAt(t.Context(), 1)
	require.NoError(t, err)
	for name, lose := range map[string]func(){"none is lost": nil, "lost": q.Worker.Disconnected, "the consumer is lost": q.Worker.ForgetDeliveries} {
		t.Run(name, func(t *testing.T) {
			start, err := q.Worker.BeginPull(t.Context())
			require.NoError(t, err)
			if lose != nil {
				lose()
			}
			ds := q.Worker.Arrived(t.Context(), start, []settle.Arrival{{Message: stored, Reply: "$JS.ACK.reply", Delivered: 1}})
			require.Equal(t, lose == nil, ds[0].Lease().Valid())
			ds[0].Release()
		})
	}
}

// told counts the answers to a delivery and passes them on.
type told struct {
	settle.Answer
	n int
}

func (a *told) Ack() error { a.n++; return a.Answer.Ack() }

func (a *told) Nak() error { a.n++; return a.Answer.Nak() }

func (a *told) NakWithDelay(d time.Duration) error { a.n++; return a.Answer.NakWithDelay(d) }

// A former owner's NAK or ack would redeliver or delete the new owner's
// message.
func TestR7AFormerOwnerNeitherGivesBackNorAcknowledges(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	said := &told{Answer: d.ExportAnswer()}
	d.ExportSetAnswer(said)
	require.NoError(t, q.Worker.HandBack(t.Context(), d, time.Hour))
	require.Equal(t, 1, said.n, "an owner gives back")

	d.Lease().ExportEndNow()
	require.NoError(t, q.Worker.HandBack(t.Context(), d, 0))
	require.NoError(t, q.Worker.HandBack(t.Context(), d, time.Hour))
	for _, r := range []order.Report{{End: order.EndHandBack}, {End: order.EndSubmissionBudget, Verdict: order.Retry}, report(order.Accepted, d.History)} {
		_, err := q.Worker.Settle(t.Context(), d, &r, order.Decide(&r, order.Facts{}))
		require.NoError(t, err)
	}
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome(), "an acceptance is merged all the same")
	require.Equal(t, 1, said.n)
}

// R1: a delivery that posted nothing settles by what it read. If somebody wrote since, the
// next delivery decides.
func TestR1WhatRestsOnTheRecordIsNotWrittenOverALaterOne(t *testing.T) {
	s := startBroker(t)
	a, b := openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	first := pull(t, a, 1)[0]
	second := again(t, first, b)
	require.True(t, second.History.Unsure, "the first one may have posted it")
	settleAs(t, a, first, rejected())

	r := order.Report{End: order.EndDeadline, History: second.History}
	decided := order.Decide(&r, order.Facts{Policy: order.Park})
	require.Equal(t, order.OutcomeUnknown, decided.Outcome)
	_, err := b.Worker.Settle(t.Context(), second, &r, decided)
	require.ErrorIs(t, err, order.ErrLeaseLost)
	require.Equal(t, order.OutcomeRejected, lookup(t, a, "A-1").Outcome())
}
