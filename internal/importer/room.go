package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/settle"
)

// DefaultFullWait is how long an import waits for a full queue in which nothing
// is settled.
const DefaultFullWait = 30 * time.Second

// roomPause is the pace at which a full queue is looked at.
const roomPause = 250 * time.Millisecond

// awaitRoom returns after a short while for another try, as long as workers
// settle orders and so make room. It returns why, with ErrInterrupted, once
// nothing was settled for Options.FullWait.
func (p *publisher) awaitRoom(ctx context.Context, why error) error {
	settled, err := p.settledSoFar(ctx)
	if err != nil {
		return err
	}
	for since := time.Now(); ; {
		if !sleep(ctx, roomPause) {
			return ctx.Err()
		}
		now, err := p.settledSoFar(ctx)
		if err != nil || now > settled {
			return err
		}
		if time.Since(since) >= p.f.o.FullWait {
			return fmt.Errorf("%w, and no order was settled for %s: %w", why, p.f.o.FullWait, ErrInterrupted)
		}
	}
}

// settledSoFar counts the intents that have left the queue.
func (p *publisher) settledSoFar(ctx context.Context) (uint64, error) {
	c, err := p.q.Count(ctx)
	return c.LastIntent - min(c.LastIntent, c.Pending), err
}

// isFull: the row may be stored when other orders are settled.
func isFull(err error) bool { return errors.Is(err, settle.ErrFull) }

// sleep says whether the time is over; else ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
