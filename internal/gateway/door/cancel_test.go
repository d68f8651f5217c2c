package door

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/testing/fleettest"
)

// TestASubmissionIsWithdrawn, once, and the journal says by whom.
func TestASubmissionIsWithdrawn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.submit(one("A", "s1"), Stored)
	_, err := r.Cancel(t.Context(), "A", "s2", "shop")
	require.ErrorIs(t, err, ErrUnknownOrder, "somebody else's")
	fleettest.Held(t, r.worker, imports.RetireCancellations)
	for range 2 { // the second finds what became of it
		o, err := r.Cancel(t.Context(), "A", "s1", "shop")
		require.NoError(t, err)
		require.Equal(t, []any{order.OutcomeCancelled, "no"}, []any{o.Outcome, o.Created})
	}
	acts, err := journal.OfOrder(t.Context(), r.worker, "A", "")
	require.NoError(t, err)
	require.Len(t, acts, 1)
	require.Equal(t, journal.Actor{Name: "shop", Known: journal.ByProcess}, acts[0].Actor)
}

// TestAMadeUpIDWithdrawsNothing, also while too many orders wait to look for one of them: the
// mark would cover whatever else is stored of the order_no.
func TestAMadeUpIDWithdrawsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	waits := func(no, id string) Order { return Order{Body: body(no, "1"), ID: id, Lane: order.BulkLane} }
	r.submit(waits("A", "rival:1"), Stored)
	require.Eventually(t, func() bool { // a busy broker may leave some of them unconfirmed
		for _, err := range r.SubmitAll(t.Context(), func(yield func(Order) bool) {
			for i := range mostScanned {
				if !yield(waits(fmt.Sprint("F-", i), fmt.Sprint("f:", i))) {
					return
				}
			}
		}) {
			if err != nil {
				return false
			}
		}
		return true
	}, 2*time.Minute, time.Millisecond)
	o, err := r.Outcome(t.Context(), "A", "shop:1")
	require.NoError(t, err)
	require.True(t, o.Pending, "it may be among them")

	_, err = r.Cancel(t.Context(), "A", "shop:1", "shop")
	require.ErrorIs(t, err, ErrPending)
	_, err = r.Cancel(t.Context(), "B", "shop:1", "shop")
	require.ErrorIs(t, err, ErrUnknownOrder)
	view, err := fleet.New(r.worker).Read(t.Context())
	require.NoError(t, err)
	require.Empty(t, view.Cancelled.Marks)

	r.submit(waits("A", "rival:2"), Stored)
	_, err = r.Cancel(t.Context(), "A", "", "desk")
	require.ErrorIs(t, err, ErrPending, "two wait, and no ID says which one is meant")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.submit(waits("C", "rival:3"), Stored)
	go func() {
		defer cancel()
		for ctx.Err() == nil { // no worker is here to act on the mark
			if view, err := fleet.New(r.worker).Read(ctx); err == nil && len(view.Cancelled.Marks) > 0 {
				return
			}
		}
	}()
	o, err = r.Cancel(ctx, "C", "", "desk")
	require.NotErrorIs(t, err, ErrPending, "it is the only one")
	require.Equal(t, "rival:3", o.ID)
	view, err = fleet.New(r.worker).Read(t.Context())
	require.NoError(t, err)
	require.Len(t, view.Cancelled.Marks, 1)
	require.Equal(t, "C", view.Cancelled.Marks[0].OrderNo)
}
