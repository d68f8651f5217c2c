package settle_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/netcut"
	"orderpost/internal/settle"
)

func TestR7AClaimIsExtendedWhileItIsWorkedOn(t *testing.T) {
	q := openQueue(t, startBroker(t), "a", func(c *queue.Config) { c.AckWait = time.Second })
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	pulled, _ := d.Lease().ExportSince()
	require.Eventually(t, func() bool {
		since, over := d.Lease().ExportSince()
		return since.Sub(pulled) > time.Second && !over
	}, 5*time.Second, 10*time.Millisecond, "held for longer than AckWait")
	d.Release()
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)
}

func TestR7ADisconnectEndsEveryClaimAndItsAttempts(t *testing.T) {
	cut := &netcut.Dialer{}
	q := openCut(t, startBroker(t), "a", cut)
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"))
	ds := pull(t, q, 2)
	stop := context.Canceled
	ctx, cancel := ds[0].Lease().Bound(t.Context(), order.ErrLeaseLost)
	defer cancel()
	require.True(t, q.ReconnectGraceUntil().IsZero())
	cut.Break()
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), order.ErrLeaseLost)
	require.NotErrorIs(t, context.Cause(ctx), stop)
	require.Eventually(t, func() bool { return !ds[1].Lease().Valid() }, 5*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return !q.ReconnectGraceUntil().IsZero() }, 5*time.Second, time.Millisecond)
	late, done := ds[1].Lease().Bound(t.Context(), order.ErrLeaseLost)
	defer done()
	require.ErrorIs(t, context.Cause(late), order.ErrLeaseLost, "a context made afterwards is over, too")
}

// After the claim has ended, the worker sends no ack, which would delete the
// new owner's message, and no NAK. It keeps the acceptance, which the
// redelivery finds.
func TestR7AfterTheClaimOnlyAMerge(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	d.Lease().ExportEndNow()
	settleAs(t, q, d, report(order.Accepted, d.History))
	c, err := q.Count(t.Context()) // arrives after the acks
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Pending)
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome())

	next := again(t, d, q)
	require.Equal(t, settle.WorkSettled, next.Work)
	require.NoError(t, q.Complete(t.Context(), next))
	requireDrained(t, q)
	require.EqualValues(t, 1, requireBalanced(t, q).Settled)
}

// An attempt whose claim has ended may write an acceptance. The new owner
// decides everything else.
func TestR7AFailureOfALapsedClaimIsOnlyNoted(t *testing.T) {
	for name, r := range map[string]order.Report{
		"rejected":  {End: order.EndAnswer, Verdict: order.Rejected},
		"exhausted": {End: order.EndTotalBudget, Verdict: order.Retry},
		"parked":    {End: order.EndAnswer, Verdict: order.Unsure, History: order.History{Unsure: true}},
	} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "a")
			publish(t, q, intent("A-1", "i1"))
			d := pull(t, q, 1)[0]
			d.Lease().ExportEndNow()
			r.History.Attempts = 3
			entry, err := q.Settle(t.Context(), d, r, order.Decide(r, order.Facts{Policy: order.Park}))
			require.NoError(t, err)
			require.Equal(t, order.OutcomeNone, entry.Record.Outcome())
			require.Equal(t, r.History.Unsure, entry.Record.Unsure)
			require.Equal(t, 3, entry.Record.Attempts)
			require.Nil(t, letterOf(t, q, "A-1"))
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
	require.NoError(t, q.HandBack(t.Context(), d, time.Hour))
	require.Equal(t, 1, said.n, "an owner gives back")

	d.Lease().ExportEndNow()
	require.NoError(t, q.HandBack(t.Context(), d, 0))
	require.NoError(t, q.HandBack(t.Context(), d, time.Hour))
	for _, r := range []order.Report{{End: order.EndHandBack}, {End: order.EndSubmissionBudget, Verdict: order.Retry}, report(order.Accepted, d.History)} {
		_, err := q.Settle(t.Context(), d, r, order.Decide(r, order.Facts{}))
		require.NoError(t, err)
	}
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome(), "an acceptance is merged all the same")
	require.Equal(t, 1, said.n)
}
