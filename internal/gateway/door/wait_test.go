package door

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

// TestTenThousandWaitsCostLittle, and one of them hears of its order.
func TestTenThousandWaitsCostLittle(t *testing.T) {
	r := newRig(t)
	const n = 10_000
	orders := func(yield func(Order) bool) {
		for i := 0; i < n && yield(one(fmt.Sprint(i), fmt.Sprintf("s%d", i))); i++ {
		}
	}
	for _, err := range r.SubmitAll(t.Context(), orders) {
		require.NoError(t, err)
	}
	before := memory()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits sync.WaitGroup
	settled := make(chan Outcome, n)
	for i := range n {
		waits.Go(func() {
			if o, err := r.Wait(ctx, fmt.Sprint(i), fmt.Sprintf("s%d", i)); err == nil {
				settled <- o
			} else if !errors.Is(err, context.Canceled) { // some may end before their first look
				t.Errorf("order %d: %+v, %v", i, o, err)
			}
		})
	}
	require.Eventually(t, func() bool { return r.waits() == n }, time.Minute, time.Millisecond)
	_, err := r.Outcome(t.Context(), "0", "s0") // behind the looks of all waits
	require.NoError(t, err)
	most := int64(10 << 10)
	if patient.UnderRace { // which takes 4 kB of its own
		most += 4 << 10
	}
	require.Eventually(t, func() bool { // a stack shrinks by half with each collection
		each := (memory() - before) / n
		t.Logf("%d bytes each, stacks included", each)
		return each < most
	}, time.Minute, 10*time.Millisecond)

	r.answer(1, order.Accepted)
	require.Equal(t, "0", (<-settled).OrderNo)
	cancel()
	waits.Wait()
	require.Empty(t, settled)
	require.Eventually(t, func() bool { return r.idle() }, time.Minute, time.Millisecond, "the follower goes on without anybody")
}

// waits counts those who wait.
func (r *rig) waits() int {
	r.follow.mu.Lock()
	defer r.follow.mu.Unlock()
	return r.follow.users
}

// idle reports whether the follower has ended.
func (r *rig) idle() bool {
	r.follow.mu.Lock()
	defer r.follow.mu.Unlock()
	return r.follow.run == nil && len(r.follow.waiters) == 0
}

// memory returns the memory in use by objects and stacks.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// TestAWaitThatComesTooLateOrForNothing: an outcome that is there is returned at once,
// what nobody knows is an error, and a submission that another one replaced is told apart.
func TestAWaitThatComesTooLateOrForNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	queuetest.Trimming(t, r.worker)
	_, err := r.Wait(t.Context(), "A", "s1")
	require.ErrorIs(t, err, ErrUnknownOrder)
	r.submit(one("A", "s1"), Stored)
	r.answer(1, order.Rejected)
	o, err := r.Wait(t.Context(), "A", "s1")
	require.NoError(t, err)
	require.Equal(t, []any{order.OutcomeRejected, "no", "shop"}, []any{o.Outcome, o.Created, o.Source})

	waited := make(chan error, 1)
	r.submit(Order{Body: body("A", "2"), ID: "s2"}, Stored) // the correction
	go func() {
		o, err := r.Wait(t.Context(), "A", "")
		if o.Outcome != order.OutcomeAccepted || o.ID != "s2" {
			err = fmt.Errorf("%+v: %w", o, err)
		}
		waited <- err
	}()
	require.Eventually(t, func() bool { return r.waits() == 1 }, time.Minute, time.Millisecond)
	r.answer(1, order.Accepted)
	require.NoError(t, <-waited)
	o, err = r.Outcome(t.Context(), "A", "s1")
	require.ErrorIs(t, err, ErrUnknownOrder)
	require.ErrorContains(t, err, `a later submission ("s2") replaced it`)
	require.Equal(t, order.OutcomeAccepted, o.Record.Outcome())
}

// TestAnOrderThatWaitsIsPending, though no subject names it.
func TestAnOrderThatWaitsIsPending(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	later := one("A", "s1")
	later.NotBefore = time.Now().Add(time.Hour)
	r.submit(later, Stored)
	r.submit(later, Same)
	laned := one("A", "s2")
	laned.Lane = order.BulkLane
	r.submit(laned, Stored) // two of one order_no may wait
	for _, id := range []string{"s1", "s2"} {
		o, err := r.Outcome(t.Context(), "A", id)
		require.NoError(t, err)
		require.Equal(t, []any{true, id, "shop"}, []any{o.Pending, o.ID, o.Source})
	}
	_, err := r.Outcome(t.Context(), "A", "s3")
	require.ErrorIs(t, err, ErrUnknownOrder)
	_, err = r.Cancel(t.Context(), "A", "s1", "shop")
	require.ErrorIs(t, err, ErrPending, "the other would be withdrawn with it")
}

// TestATimeThatIsOver is refused, since the order would be sent at once. The repetition of
// what was stored before is the same as ever: in the queue, settled, or waiting still.
func TestATimeThatIsOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	over := time.Now().Add(-time.Hour).Truncate(time.Second)
	late := func(no, id string) Order {
		o := one(no, id)
		o.NotBefore = over
		return o
	}
	for _, o := range []Order{late("new", "i-new"), late("new", "i-new"), late("new", "")} {
		_, err := r.Submit(t.Context(), o)
		var bad *InvalidError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, InvalidError{Where: "not_before", Seen: over.UTC().Format(time.RFC3339) + " is over, so the order would be sent at once", Do: "give a later time, or none", Code: "bad_not_before"}, *bad)
	}
	require.Zero(t, r.waits())

	r.submit(one("queued", "i-queued"), Stored)
	r.submit(late("queued", "i-queued"), Same)
	waits := func(no, id string, at time.Time) {
		o := one(no, id)
		res := r.worker.PublishMany(t.Context(), []settle.Intent{{OrderNo: no, Body: o.Body, ID: id, NotBefore: at}})
		require.NoError(t, res[0].Err)
	}
	waits("other", "i-other", over) // for the same second
	waits("waiting", "i-waiting", over)
	r.submit(late("waiting", "i-waiting"), Same)
	_, err := r.Submit(t.Context(), Order{Body: body("waiting", "9"), ID: "i-waiting", NotBefore: over})
	require.ErrorIs(t, err, ErrIDUsed)
	_, err = r.Submit(t.Context(), late("waiting", "i-another"))
	require.ErrorContains(t, err, "is over")
	r.answer(1, order.Accepted)
	r.submit(late("queued", "i-queued"), Same)

	now := one("just", "i-just")
	now.NotBefore = time.Now().Add(-time.Second)
	r.submit(now, Stored) // a program may be a little late
}
