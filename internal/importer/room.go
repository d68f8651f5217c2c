package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/settle"
)

// DefaultFullWait is the default of Options.FullWait.
const DefaultFullWait = 30 * time.Second

// roomPause is the interval between two looks at a full queue.
const roomPause = 250 * time.Millisecond

// room waits for room in a full queue.
type room struct {
	left  uint64    // intents that had left the queue at the last look
	since time.Time // when that last changed; zero = not looked yet
}

// await returns nil when another try makes sense: settled orders left the queue and so
// made room. Once no order was settled for Options.FullWait, it returns why with
// ErrInterrupted. The first call always allows another try, because orders may have
// been settled since the refusal.
func (r *room) await(ctx context.Context, p *publisher, why error) error {
	for {
		now, err := p.leftSoFar(ctx)
		switch {
		case err != nil:
			return err
		case r.since.IsZero():
			r.left, r.since = now, time.Now()
			return pause(ctx)
		case now > r.left:
			r.left, r.since = now, time.Now()
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

// leftSoFar returns the number of intents that have left the queue. What is settled makes
// room only then (R14).
func (p *publisher) leftSoFar(ctx context.Context) (uint64, error) {
	state, err := p.q.Intents().State(ctx)
	return state.LastSeq - min(state.LastSeq, state.Messages), err
}

// isFull reports whether the queue is full.
func isFull(err error) bool { return errors.Is(err, settle.ErrFull) }

// sleep waits for d. It returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
