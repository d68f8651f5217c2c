package settle

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// fakeLease is a lease with a clock of its own: a term of 9 s, as an AckWait of
// 10 s gives.
func fakeLease(now *time.Time) *Lease {
	k := newKeeper(&Protocol{time: RealTime()})
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
	require.ErrorIs(t, l.Fence(), order.ErrLeaseLost)
	now = now.Add(-5 * time.Second)
	require.ErrorIs(t, l.Fence(), order.ErrLeaseLost, "it never comes back")
}

// Another worker's late NAK took the message from this one, and the broker gave
// it to this one again: only the later delivery owns it.
func TestR7ASecondDeliveryEndsTheFirstClaim(t *testing.T) {
	now := time.Now()
	first := fakeLease(&now)
	ctx, cancel := first.Bound(t.Context(), order.ErrLeaseLost)
	defer cancel()
	second := first.keeper.claim("again", 1, 2, now)
	require.False(t, first.Valid())
	require.ErrorIs(t, context.Cause(ctx), order.ErrLeaseLost)
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
