package worker

import (
	"context"
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
	gate := p.Submitter.Gate()
	for {
		if gate.Wait(ctx) != nil || trouble.wait(ctx) != nil {
			return
		}
		n, err := p.slots.takeForPull(ctx, max(1, min(gate.Capacity(), pullMost)))
		if err != nil {
			return
		}
		go p.pull(n, trouble)
	}
}

// pull fills n slots, as far as messages come.
func (p *Pool) pull(n int, trouble *pullTrouble) {
	filled, began := 0, time.Now()
	err := p.Queue.Pull(p.work, n, pullWait, func(ds []*settle.Delivery) {
		filled += len(ds)
		for _, d := range ds {
			p.goroutines.dispatch(d, began)
		}
	})
	trouble.note(err)
	p.slots.pullDone(n - filled)
}

// pullTrouble spaces pulls out while they fail, and logs a failure once.
type pullTrouble struct {
	pool  *Pool
	delay atomicDuration
}

func (t *pullTrouble) note(err error) {
	if err == nil {
		if t.delay.swap(0) != 0 {
			t.pool.Log.Info().Msg("pulling orders again")
		}
		return
	}
	old := t.delay.load()
	if old == 0 {
		t.pool.Log.Warn().Err(err).Msg("cannot pull orders; trying again")
	}
	t.delay.store(min(max(2*old, pullRetryMin), pullRetryMax))
}

func (t *pullTrouble) wait(ctx context.Context) error {
	d := t.delay.load()
	if d == 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
