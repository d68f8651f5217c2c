package settle

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// fakeLease returns a lease with its own clock and a term of 9 s, that of an
// AckWait of 10 s.
func fakeLease(now *time.Time) *Lease {
	k := newClaims(&Ledger{time: RealTime()})
	k.now = func() time.Time { return *now }
	k.ackWait.Store(int64(10 * time.Second))
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

// Another worker's late NAK took the message from this worker, and the broker
// delivered it to this worker again. Only the later delivery owns it.
func TestR7ASecondDeliveryEndsTheFirstClaim(t *testing.T) {
	now := time.Now()
	first := fakeLease(&now)
	ctx, cancel := first.Bound(t.Context(), order.ErrLeaseLost)
	defer cancel()
	second := first.claims.claim("again", 1, 2, now)
	require.False(t, first.Valid())
	require.ErrorIs(t, context.Cause(ctx), order.ErrLeaseLost)
	require.True(t, second.Valid())
	require.False(t, first.claims.claim("late", 1, 1, now).Valid(), "the earlier delivery arrives last")
	require.True(t, second.Valid())
	require.True(t, first.claims.claim("other", 2, 1, now).Valid())
	for _, l := range first.claims.all() {
		l.release()
	}
	require.Empty(t, first.claims.bySeq)
}

// The process was frozen and finds the answer when it wakes. The server may
// have delivered the message to another worker meanwhile and extended that
// claim.
func TestR7ALateAnswerDoesNotReviveAClaim(t *testing.T) {
	now := time.Now()
	l := fakeLease(&now)
	now = now.Add(8 * time.Second)
	l.noteRequest(now)
	now = now.Add(2 * time.Second)
	l.confirm(1, now)
	require.False(t, l.Valid())
	l.confirm(1, now)
	l.confirm(7, now)
	require.False(t, l.Valid())
}
