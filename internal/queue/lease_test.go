package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue/netcut"
)

// fakeLease is a lease with a clock of its own: a term of 9 s, as an AckWait of
// 10 s gives.
func fakeLease(now *time.Time) *Lease {
	k := newKeeper(nil)
	k.now = func() time.Time { return *now }
	k.term, k.period = 9*time.Second, time.Second/2
	return k.claim("reply", 1, 1, *now)
}

func TestR7AClaimEndsBeforeTheServersPatience(t *testing.T) {
	now := time.Now()
	l := fakeLease(&now)
	now = now.Add(9*time.Second - time.Millisecond)
	require.NoError(t, l.Fence())
	now = now.Add(time.Millisecond)
	require.ErrorIs(t, l.Fence(), ErrLeaseLost)
	now = now.Add(-5 * time.Second)
	require.ErrorIs(t, l.Fence(), ErrLeaseLost, "it never comes back")
}

// Another worker's late NAK took the message from this one, and the broker gave
// it to this one again: only the later delivery owns it.
func TestR7ASecondDeliveryEndsTheFirstClaim(t *testing.T) {
	now := time.Now()
	first := fakeLease(&now)
	ctx, cancel := first.Bound(t.Context(), ErrLeaseLost)
	defer cancel()
	second := first.keeper.claim("again", 1, 2, now)
	require.False(t, first.Valid())
	require.ErrorIs(t, context.Cause(ctx), ErrLeaseLost)
	require.True(t, second.Valid())
	require.False(t, first.keeper.claim("late", 1, 1, now).Valid(), "the earlier delivery arrives last")
	require.True(t, second.Valid())
	require.True(t, first.keeper.claim("other", 2, 1, now).Valid())
	for _, l := range first.keeper.all() {
		l.release()
	}
	require.Empty(t, first.keeper.bySeq)
}

// A suspended machine stops the monotonic clock; the wall clock shows it.
func TestR7EitherClockEndsAClaim(t *testing.T) {
	since := time.Now()
	wallOnly := since.Add(time.Hour).Round(0)
	require.Equal(t, time.Hour, age(since, wallOnly))
	require.Equal(t, time.Duration(0), age(since, since))
	require.Equal(t, time.Hour, age(since, since.Add(time.Hour)))
}

func TestR7AnAnsweredRequestExtendsFromItsSending(t *testing.T) {
	now := time.Now()
	l := fakeLease(&now)
	now = now.Add(3 * time.Second)
	l.ask(now)
	sent := now
	now = now.Add(2 * time.Second)
	l.ask(now)
	now = now.Add(3 * time.Second)
	l.confirm(1, now) // the first answer comes after the second request was sent
	require.Equal(t, sent, l.since, "a slow broker is heard, and proves no more than it did")
	now = sent.Add(9 * time.Second)
	require.False(t, l.Valid())
}

// The process was frozen: the answer lies there when it wakes. Meanwhile the
// server may have given the message away, and extended that claim.
func TestR7ALateAnswerDoesNotReviveAClaim(t *testing.T) {
	now := time.Now()
	l := fakeLease(&now)
	now = now.Add(8 * time.Second)
	l.ask(now)
	now = now.Add(2 * time.Second)
	l.confirm(1, now)
	require.False(t, l.Valid())
	l.confirm(1, now)
	l.confirm(7, now)
	require.False(t, l.Valid())
}

func TestR7AClaimIsExtendedWhileItIsWorkedOn(t *testing.T) {
	q := openQueue(t, startBroker(t), "a", func(c *Config) { c.AckWait = time.Second })
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	pulled := d.lease.since
	require.Eventually(t, func() bool {
		d.lease.mu.Lock()
		defer d.lease.mu.Unlock()
		return d.lease.since.Sub(pulled) > time.Second && !d.lease.over
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
	ctx, cancel := ds[0].Lease().Bound(t.Context(), ErrLeaseLost)
	defer cancel()
	require.True(t, q.RestlessUntil(0).IsZero())
	cut.Break()
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), ErrLeaseLost)
	require.NotErrorIs(t, context.Cause(ctx), stop)
	require.Eventually(t, func() bool { return !ds[1].Lease().Valid() }, 5*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return !q.RestlessUntil(0).IsZero() }, 5*time.Second, time.Millisecond)
	late, done := ds[1].Lease().Bound(t.Context(), ErrLeaseLost)
	defer done()
	require.ErrorIs(t, context.Cause(late), ErrLeaseLost, "a context made afterwards is over, too")
}

// After the claim lapsed: no ack (it would delete the new owner's message), no
// NAK; the acceptance is kept, and resolves the redelivery.
func TestR7AfterTheClaimOnlyAMerge(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	d.lease.endNow()
	settleAs(t, q, d, report(order.Accepted, d.History))
	require.NoError(t, q.nc.Flush())
	c, err := q.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Pending)
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome())

	next := again(t, d, q)
	require.Equal(t, WorkSettled, next.Work)
	require.NoError(t, q.Complete(t.Context(), next))
	requireDrained(t, q)
	require.EqualValues(t, 1, requireBalanced(t, q).Settled)
}

// What an attempt of a lapsed claim found out beside acceptance is the new
// owner's to say: it may be asking at this moment.
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
			d.lease.endNow()
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

// told counts what is said to the broker about a delivery, and passes it on.
type told struct {
	Answer
	n int
}

func (a *told) Ack() error { a.n++; return a.Answer.Ack() }

func (a *told) Nak() error { a.n++; return a.Answer.Nak() }

func (a *told) NakWithDelay(d time.Duration) error { a.n++; return a.Answer.NakWithDelay(d) }

// A NAK or an ack of a former owner would redeliver or delete the message under
// its new owner's hands.
func TestR7AFormerOwnerNeitherGivesBackNorAcknowledges(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	said := &told{Answer: d.answer}
	d.answer = said
	require.NoError(t, q.HandBack(t.Context(), d, time.Hour))
	require.Equal(t, 1, said.n, "an owner gives back")

	d.lease.endNow()
	require.NoError(t, q.HandBack(t.Context(), d, 0))
	require.NoError(t, q.HandBack(t.Context(), d, time.Hour))
	for _, r := range []order.Report{{End: order.EndHandBack}, {End: order.EndVisitBudget, Verdict: order.Retry}, report(order.Accepted, d.History)} {
		_, err := q.Settle(t.Context(), d, r, order.Decide(r, order.Facts{}))
		require.NoError(t, err)
	}
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "A-1").Outcome(), "an acceptance is merged all the same")
	require.Equal(t, 1, said.n)
}
