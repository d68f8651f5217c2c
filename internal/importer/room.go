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

// room is what one piece of an import knows of a full queue.
type room struct {
	settled uint64    // by the time of the last try
	since   time.Time // when that was seen first; zero: not yet
}

// await returns after a short while for another try, as long as workers settle
// orders and so make room. It returns why, with ErrInterrupted, once nothing
// was settled for Options.FullWait. The first call returns for another try in
// any case: what was settled between the refusal and this look is room, too.
func (r *room) await(ctx context.Context, p *publisher, why error) error {
	for {
		now, err := p.settledSoFar(ctx)
		switch {
		case err != nil:
			return err
		case r.since.IsZero():
			r.settled, r.since = now, time.Now()
			return pause(ctx)
		case now > r.settled:
			r.settled, r.since = now, time.Now()
			return nil
		case time.Since(r.since) >= p.f.o.FullWait:
			return fmt.Errorf("%w, and no order was settled for %s: %w", why, p.f.o.FullWait, ErrInterrupted)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context) error {
	if !sleep(ctx, roomPause) {
		return ctx.Err()
	}
	return nil
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
