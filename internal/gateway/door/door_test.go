package door

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/testing/queuetest"
)

// TestAnOrderComesInAndItsOutcomeComesBack: stored once, the same on repetition, pending,
// then settled; and a submission that follows is told apart.
func TestAnOrderComesInAndItsOutcomeComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	queuetest.Trimming(t, r.worker)
	got := r.submit(one("A 1", "s1"), Stored)
	require.Equal(t, Receipt{OrderNo: "A 1", ID: "s1", Status: Stored}, got)
	r.submit(one("A 1", "s1"), Same)
	_, err := r.Submit(t.Context(), one("A 1", "s2"))
	require.ErrorIs(t, err, ErrPending)
	_, err = r.Submit(t.Context(), Order{Body: body("A 1", "2"), ID: "s1"})
	require.ErrorIs(t, err, ErrIDUsed, "the same id with another body")
	_, err = r.Submit(t.Context(), one("B", "s1"))
	require.ErrorIs(t, err, ErrIDUsed, "the same id for another order")

	o, err := r.Outcome(t.Context(), "A 1", "s1")
	require.NoError(t, err)
	require.True(t, o.Pending)
	require.Equal(t, "shop", o.Source)
	waited := make(chan Outcome)
	go func() {
		o, _ := r.Wait(t.Context(), "A 1", "s1")
		waited <- o
	}()
	r.answer(1, order.Accepted)
	o = <-waited
	require.Equal(t, order.OutcomeAccepted, o.Outcome)
	require.Equal(t, "yes", o.Created)
	require.False(t, o.Pending)
	r.submit(one("A 1", "s1"), Same)

	r.submit(Order{Body: body("A 1", "2"), ID: "s3"}, Stored) // a conflict
	r.answer(1, order.Accepted)
	o, err = r.Wait(t.Context(), "A 1", "s3")
	require.NoError(t, err)
	require.Equal(t, order.OutcomeRejected, o.Outcome)
	require.Equal(t, "no", o.Created)
	require.Equal(t, conflictReason, o.Reason)
	o, err = r.Outcome(t.Context(), "A 1", "s1")
	require.NoError(t, err)
	require.Equal(t, order.OutcomeAccepted, o.Outcome, "the conflict changed nothing for the first")
}
