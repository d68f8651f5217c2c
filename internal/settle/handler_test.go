package settle

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// waiting counts the orders whose writes the broker refuses, as the worker's
// gate does.
type waiting struct{ n atomic.Int64 }

func (w *waiting) gateOpen() bool { return w.n.Load() == 0 }

// newJob returns a job for tests that only call write.
func newJob(ctx context.Context, h *Handler) *job {
	return &job{Handler: h, d: &Delivery{}, writes: ctx}
}

func newTestHandler(w *waiting) *Handler {
	return NewHandler(New(Config{Log: zerolog.Nop()}, nil, RealTime()).Worker,
		HandlerOptions{Refused: func(error) { w.n.Add(1) }, Stored: func() { w.n.Add(-1) }})
}

// R10: the broker refuses a result, and the repetition fails for another
// reason. Nobody tries again then, so the gate must open. Otherwise the pool
// would stand still for ever. Found by the simulation.
func TestR10TheGateOpensWhenNobodyIsLeftToTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{}
		answers := []error{ErrStorage, ErrStorage, errors.New("the dead letter cannot be removed")}
		var open []bool
		require.False(t, newJob(t.Context(), newTestHandler(w)).write(func(context.Context, *Delivery) (err error) {
			open = append(open, w.gateOpen())
			err, answers = answers[0], answers[1:]
			return err
		}))
		require.Equal(t, []bool{true, false, false}, open)
		require.True(t, w.gateOpen())
	})
}

// R10: of two orders whose writes were refused, one has nothing to write any
// more. An abandoned order proves nothing about storage. Found by the
// simulation.
func TestR10TheGateStaysClosedWhileAnyResultIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &waiting{}
		h := newTestHandler(w)
		var room atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			newJob(t.Context(), h).write(func(context.Context, *Delivery) error {
				if room.Load() {
					return nil
				}
				return ErrStorage
			})
		})
		time.Sleep(storageRetry / 2) // of the bubble's clock
		wg.Go(func() {
			answers := []error{ErrStorage, nil}
			newJob(t.Context(), h).write(func(context.Context, *Delivery) (err error) {
				err, answers = answers[0], answers[1:]
				return err
			})
		})
		time.Sleep(storageRetry + storageRetry/4) // the second left, and the first has not tried again since
		require.False(t, w.gateOpen())
		room.Store(true)
		wg.Wait()
		require.True(t, w.gateOpen())
	})
}
