package worker

import (
	"context"
	"sync/atomic"
	"time"

	"orderpost/internal/settle"
)

const (
	// pullWait is how long a pull waits for messages. It bounds how long a
	// closed gate or a drain waits for a pull that is under way.
	pullWait = time.Second
	// pullMost bounds one pull.
	pullMost = 256
	// pullRetryMin and pullRetryMax bound the wait after a failed pull.
	pullRetryMin = 100 * time.Millisecond
	pullRetryMax = 2 * time.Second
)

// intake pulls while ctx lasts: gate first, then slots, then messages.
func (p *Pool) intake(ctx context.Context) {
	trouble := &pullTrouble{pool: p}
	for {
		most, sweeps, err := p.awaitGate(ctx)
		if err != nil || trouble.wait(ctx) != nil {
			return
		}
		n, err := p.slots.takeForPull(ctx, min(most, pullMost))
		if err != nil {
			return
		}
		go p.pull(n, sweeps, trouble)
	}
}

// awaitGate waits until the pool may pull, and returns how many orders. What a person
// cancelled needs no gate: if the gate is shut, sweeps is the version of the cancellations
// for which the pool pulls, until a pull finds none that are cancelled.
func (p *Pool) awaitGate(ctx context.Context) (most int, sweeps int64, err error) {
	gate := p.Submitter.Gate()
	for {
		changed := gate.Changed()
		version, news := p.Queue.Ledger.CancellationsChanged()
		switch n := gate.Capacity(); {
		case n >= p.Concurrency:
			return pullMost, 0, nil
		case n > 0: // a trial: few orders find out whether the API is back
			return n, 0, nil
		}
		if version != p.swept.Load() && len(p.Queue.Ledger.Cancellations().Marks) > 0 {
			return pullMost, version, nil
		}
		select {
		case <-changed:
		case <-news:
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		}
	}
}

// pull fills n slots, as far as messages come. sweeps is as in awaitGate.
func (p *Pool) pull(n int, sweeps int64, trouble *pullTrouble) {
	filled, cancelled, began := 0, false, time.Now()
	err := p.Queue.Pull(p.work, n, pullWait, func(ds []*settle.Delivery) {
		filled += len(ds)
		for _, d := range ds {
			cancelled = cancelled || d.Work == settle.WorkCancelled
			p.goroutines.dispatch(d, began)
		}
	})
	if err == nil && sweeps != 0 && !cancelled {
		p.swept.Store(sweeps)
	}
	trouble.note(err)
	p.slots.pullDone(n - filled)
}

// pullTrouble spaces pulls out while they fail, and logs a failure once.
type pullTrouble struct {
	pool  *Pool
	delay atomic.Int64 // nanoseconds
}

func (t *pullTrouble) note(err error) {
	if err == nil {
		if t.delay.Swap(0) != 0 {
			t.pool.Log.Info().Msg("pulling orders again")
		}
		return
	}
	old := t.delay.Load()
	if old == 0 {
		t.pool.Log.Warn().Err(err).Msg("cannot pull orders; trying again")
	}
	t.delay.Store(min(max(2*old, int64(pullRetryMin)), int64(pullRetryMax)))
}

func (t *pullTrouble) wait(ctx context.Context) error {
	if d := t.delay.Load(); d != 0 {
		return settle.Sleep(ctx, time.Duration(d))
	}
	return ctx.Err()
}
