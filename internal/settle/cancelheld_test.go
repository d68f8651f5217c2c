package settle_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// heldUp is the clock of a command that is stopped for a while.
type heldUp struct {
	settle.Runtime
	mu        sync.Mutex
	ahead     time.Duration
	deadlines []context.CancelFunc
}

func (h *heldUp) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return time.Now().Add(h.ahead)
}

// WithDeadline returns a context that ends when the command wakes.
func (h *heldUp) WithDeadline(ctx context.Context, _ time.Time) (context.Context, context.CancelFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	h.deadlines = append(h.deadlines, cancel)
	return ctx, cancel
}

// wake ends the deadlines that passed meanwhile.
func (h *heldUp) wake(after time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead += after
	for _, end := range h.deadlines {
		end()
	}
	h.deadlines = nil
}

// cancelStore lets a test act at the steps of a cancellation. A step that is nil is
// the store's own.
type cancelStore struct {
	settle.Store
	putRecord func(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error)
	delivered func(context.Context) (uint64, error)
	pause     func(ctx context.Context, until time.Time) error
}

func (s *cancelStore) PutRecord(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
	if s.putRecord != nil {
		return s.putRecord(ctx, token, r, expect)
	}
	return s.Store.PutRecord(ctx, token, r, expect)
}

func (s *cancelStore) Delivered(ctx context.Context) (uint64, error) {
	if s.delivered != nil {
		return s.delivered(ctx)
	}
	return s.Store.Delivered(ctx)
}

func (s *cancelStore) Pause(ctx context.Context, until time.Time) error {
	if s.pause != nil {
		return s.pause(ctx, until)
	}
	return s.Store.Pause(ctx, until)
}

// patience makes a command patient. It takes no error for an outage.
type patience struct{}

func (patience) Transient(error) bool                 { return false }
func (p patience) Wait() settle.Wait                  { return p }
func (patience) Backoff(context.Context, error) error { return nil }
func (patience) Done()                                {}

// cancelling is the rig of a cancellation of A-1 that something happens to.
type cancelling struct {
	t      *testing.T
	worker *queue.Queue
	store  *cancelStore
	clock  *heldUp
	cmd    *settle.Protocol
}

func newCancelling(t *testing.T, p settle.Patience) *cancelling {
	w := openQueue(t, startBroker(t), "a")
	publish(t, w, intent("A-1", "i1"))
	c := &cancelling{t: t, worker: w, store: &cancelStore{Store: w.Store()}, clock: &heldUp{Runtime: settle.RealTime()}}
	c.cmd = settle.New(settle.Config{Worker: "cmd", IntentSubjects: "orders.new.", WaitingSubjects: "orders.waiting.",
		AttemptTimeout: time.Second, Log: zerolog.Nop(), Patience: p}, c.store, c.clock)
	return c
}

func (c *cancelling) cancel(ctx context.Context) (settle.Cancelled, error) {
	return c.cmd.Cancel(ctx, "anna", func(visit func([]*settle.Pending) error) error {
		m, err := c.worker.Store().Intent(c.t.Context(), "A-1")
		if err != nil || m == nil {
			return err
		}
		return visit([]*settle.Pending{settle.ReadPending("A-1", m)})
	})
}

// holdUp stops the command for longer than the pause. Meanwhile a worker gets the
// order.
func (c *cancelling) holdUp() *settle.Delivery {
	require.NoError(c.t, c.worker.Store().Pause(c.t.Context(), time.Now().Add(50*time.Millisecond)))
	d := pull(c.t, c.worker, 1)[0]
	c.clock.wake(70 * time.Second)
	return d
}

var errLost = errors.New("the answer was lost")

// requireDoubted: the order was posted, the answer was lost, and a person hears of it.
func (c *cancelling) requireDoubted(d *settle.Delivery, err error) {
	c.t.Helper()
	require.ErrorContains(c.t, err, "workers may have posted A-1; these are unknown now")
	settleAs(c.t, c.worker, d, report(order.Unsure, order.History{Unsure: true}))
	rec := lookup(c.t, c.worker, "A-1")
	require.Equal(c.t, order.OutcomeUnknown, rec.Outcome())
	require.True(c.t, rec.Unsure)
	requireDrained(c.t, c.worker)
	requireBalanced(c.t, c.worker)
}

// TestR3ACancellationThatOutlastsItsPauseLeavesDoubt: the command is stopped while its
// write is on its way. The write is stored after a worker got the order and read that
// it has no record.
func TestR3ACancellationThatOutlastsItsPauseLeavesDoubt(t *testing.T) {
	for name, p := range map[string]settle.Patience{"patient": patience{}, "impatient": nil} {
		t.Run(name, func(t *testing.T) {
			c := newCancelling(t, p)
			var d *settle.Delivery
			c.store.putRecord = func(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
				c.store.putRecord = nil
				d = c.holdUp()
				require.Equal(t, settle.WorkSubmit, d.Work)
				_, err := c.store.Store.PutRecord(t.Context(), token, r, expect)
				require.NoError(t, err)
				return 0, errors.Join(errLost, ctx.Err())
			}
			counts, err := c.cancel(t.Context())
			require.Zero(t, counts.Withdrawn)
			c.requireDoubted(d, err)
		})
	}
}

// TestR3ACancellationThatWasHeldUpLooksUntilItsTimeIsUp: its write was stored late, and
// neither that answer nor the next one arrives.
func TestR3ACancellationThatWasHeldUpLooksUntilItsTimeIsUp(t *testing.T) {
	c := newCancelling(t, nil)
	var d *settle.Delivery
	c.store.putRecord = func(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
		c.store.putRecord = nil
		d = c.holdUp()
		_, err := c.store.Store.PutRecord(t.Context(), token, r, expect)
		require.NoError(t, err)
		c.store.delivered = func(context.Context) (uint64, error) {
			c.store.delivered = nil
			return 0, errLost
		}
		return 0, errors.Join(errLost, ctx.Err())
	}
	_, err := c.cancel(t.Context())
	c.requireDoubted(d, err)
}

// TestR3ACancellationThatWasHeldUpLooksBeforeItWritesAgain: the write is lost with the pause.
// The next one may be the last thing that the command gets done.
func TestR3ACancellationThatWasHeldUpLooksBeforeItWritesAgain(t *testing.T) {
	c := newCancelling(t, patience{})
	var d *settle.Delivery
	var written []order.Outcome
	c.store.putRecord = func(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
		if d == nil {
			d = c.holdUp()
			return 0, errors.Join(errLost, ctx.Err())
		}
		written = append(written, r.Outcome())
		return c.store.Store.PutRecord(ctx, token, r, expect)
	}
	_, err := c.cancel(t.Context())
	c.requireDoubted(d, err)
	require.Equal(t, []order.Outcome{order.OutcomeUnknown}, written)
}

// TestR3AWriteOfACancellationIsNotStoredAfterItsEnd: the command gives up waiting for
// its write. The broker gets the write when the command has ended.
func TestR3AWriteOfACancellationIsNotStoredAfterItsEnd(t *testing.T) {
	for name, p := range map[string]settle.Patience{"patient": patience{}, "impatient": nil} {
		t.Run(name, func(t *testing.T) {
			c := newCancelling(t, p)
			var d *settle.Delivery
			var late func() error
			c.store.putRecord = func(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
				c.store.putRecord = nil
				d = c.holdUp()
				late = func() error {
					_, err := c.store.Store.PutRecord(t.Context(), token, r, expect)
					return err
				}
				return 0, errors.Join(errLost, ctx.Err())
			}
			_, err := c.cancel(t.Context())
			require.ErrorIs(t, late(), settle.ErrStale)
			c.requireDoubted(d, err)
		})
	}
}

// TestACancellationThatIsInterruptedFinishesItsWrites: deliveries go on when the fate
// of each write is known, also after Ctrl-C.
func TestACancellationThatIsInterruptedFinishesItsWrites(t *testing.T) {
	c := newCancelling(t, nil)
	ctx, interrupt := context.WithCancel(t.Context())
	var late func() error
	c.store.putRecord = func(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
		c.store.putRecord = nil
		interrupt()
		late = func() error {
			_, err := c.store.Store.PutRecord(t.Context(), token, r, expect)
			return err
		}
		return 0, ctx.Err()
	}
	c.store.pause = func(ctx context.Context, until time.Time) error {
		if late != nil {
			require.ErrorIs(t, late(), settle.ErrStale, "deliveries go on, and the write is on its way")
		}
		return c.store.Store.Pause(ctx, until)
	}
	_, err := c.cancel(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, order.OutcomeCancelled, lookup(t, c.worker, "A-1").Outcome())
	d := pull(t, c.worker, 1)[0]
	require.Equal(t, settle.WorkSettled, d.Work)
	require.NoError(t, c.worker.Complete(t.Context(), d))
	requireDrained(t, c.worker)
	requireBalanced(t, c.worker)
}

// TestACancellationWhoseWritesAreLostLeavesThePause: nobody knows when a write that is
// on its way is stored.
func TestACancellationWhoseWritesAreLostLeavesThePause(t *testing.T) {
	c := newCancelling(t, nil)
	c.store.putRecord = func(context.Context, string, *order.Record, uint64) (uint64, error) {
		c.clock.wake(0) // nothing is waited for any longer
		return 0, errLost
	}
	_, err := c.cancel(t.Context())
	require.ErrorContains(t, err, "order A-1: its cancellation is not confirmed")
	until, err := c.store.PausedUntil(t.Context())
	require.NoError(t, err)
	require.Greater(t, time.Until(until), 30*time.Second)
}

// TestWhatWasWithdrawnDuringThePauseStaysCancelled: the command is stopped after its
// writes. What workers are given after that is settled.
func TestWhatWasWithdrawnDuringThePauseStaysCancelled(t *testing.T) {
	c := newCancelling(t, nil)
	looks := 0
	var d *settle.Delivery
	c.store.delivered = func(ctx context.Context) (uint64, error) {
		if looks++; looks == 2 {
			d = c.holdUp()
			require.Equal(t, settle.WorkSettled, d.Work)
		}
		return c.store.Store.Delivered(ctx)
	}
	counts, err := c.cancel(t.Context())
	require.NoError(t, err)
	require.Equal(t, settle.Cancelled{Withdrawn: 1}, counts)
	require.Equal(t, order.OutcomeCancelled, lookup(t, c.worker, "A-1").Outcome())
	require.NoError(t, c.worker.Complete(t.Context(), d))
	requireDrained(t, c.worker)
	requireBalanced(t, c.worker)
}
