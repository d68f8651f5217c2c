package worker

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/submit"
)

// storagePool is a pool of which only untilStored is used.
func storagePool(t *testing.T) (*Pool, *submit.Gate) {
	t.Helper()
	signer, err := NewSigner("secret")
	require.NoError(t, err)
	s, err := submit.New(submit.DefaultConfig("http://127.0.0.1:1"), submit.Deps{Keys: submit.StaticKeys{{Key: "key", Signer: signer}}, Log: zerolog.Nop()})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	p := NewPool(PoolOptions{Submitter: s, Concurrency: 1, Log: zerolog.Nop()})
	p.settle = t.Context()
	return p, s.Gate()
}

// R10: results were refused, and then the repetition fails for another reason.
// Nobody is left who would try again, so the gate must not stay closed: the
// pool would stand still for ever. Found by the simulation.
func TestR10TheGateOpensWhenNobodyIsLeftToTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gate := storagePool(t)
		answers := []error{queue.ErrStorage, queue.ErrStorage, errors.New("the dead letter cannot be removed")}
		var open []bool
		err := p.untilStored(&queue.Delivery{}, func() (err error) {
			open = append(open, gate.State().Open)
			err, answers = answers[0], answers[1:]
			return err
		})
		require.ErrorContains(t, err, "cannot be removed")
		require.Equal(t, []bool{true, false, false}, open)
		require.True(t, gate.State().Open)
	})
}

// R10: of two orders whose writes were refused, one has nothing to write any
// more. That shows nothing of the storage. Found by the simulation.
func TestR10TheGateStaysClosedWhileAnyResultIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gate := storagePool(t)
		var room atomic.Bool
		refused := func() error {
			if room.Load() {
				return nil
			}
			return queue.ErrStorage
		}
		var wg sync.WaitGroup
		wg.Go(func() { _ = p.untilStored(&queue.Delivery{}, refused) })
		time.Sleep(storageRetry / 2) // of the bubble's clock
		wg.Go(func() {
			answers := []error{queue.ErrStorage, nil}
			_ = p.untilStored(&queue.Delivery{}, func() (err error) {
				err, answers = answers[0], answers[1:]
				return err
			})
		})
		time.Sleep(storageRetry + storageRetry/4) // the second left, and the first has not tried again since
		require.False(t, gate.State().Open)
		room.Store(true)
		wg.Wait()
		require.True(t, gate.State().Open)
	})
}
