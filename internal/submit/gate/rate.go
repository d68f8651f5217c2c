package gate

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// rateMemory is how long the rate limit counts as binding after it made an order
// wait. It is longer than the gap between two orders at a limit of one order in
// a few seconds.
const rateMemory = 10 * time.Second

// minRateWait is the shortest wait that makes the rate limit count as binding.
// Two orders that ask for a token at the same moment wait less than that.
const minRateWait = time.Millisecond

// awaitRate takes a token of the rate limit and returns how long it waited, at
// least 1 ns if it waited at all.
//
// Only one order waits for a token at a time. If many orders reserved tokens
// ahead, they would use them at the old rate after the limit is lowered, and
// every worker's share is lowered when another worker joins (R12).
func (g *Gate) awaitRate(ctx context.Context) (waited time.Duration, err error) {
	if g.limiter.Limit() == rate.Inf {
		return 0, nil
	}
	began := time.Now()
	makes, err := g.takeToken(ctx)
	if !makes {
		return 0, err
	}
	now := time.Now()
	waited = max(1, now.Sub(began))
	if waited >= minRateWait {
		g.rateWaited.Store(now.UnixNano())
	}
	return waited, err
}

// takeToken takes a token and reports whether it had to wait. After a change of
// the gate it reserves the token again, at the new limit.
func (g *Gate) takeToken(ctx context.Context) (waited bool, err error) {
	select {
	case g.tokenTurn <- struct{}{}:
	default:
		waited = true
		select {
		case g.tokenTurn <- struct{}{}:
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-g.draining:
			return true, ErrDraining
		}
	}
	defer func() { <-g.tokenTurn }()
	for {
		changed := g.Changed()
		r := g.limiter.Reserve()
		d := r.Delay()
		if d == 0 {
			return waited, nil
		}
		waited = true
		t := time.NewTimer(d)
		select {
		case <-t.C:
			return true, nil
		case <-changed:
			r.Cancel()
			if g.IsDraining() {
				t.Stop()
				return true, ErrDraining
			}
		case <-ctx.Done():
			r.Cancel()
			t.Stop()
			return true, context.Cause(ctx)
		}
		t.Stop()
	}
}

// ThrottleUntil shuts the gate because the API asked another worker of the fleet
// for slower requests. It never shortens a throttle that already stands.
func (g *Gate) ThrottleUntil(until time.Time, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.blocks[BlockThrottle]; b != nil && !until.After(b.until) {
		return
	}
	g.shut(BlockThrottle, reason, until)
}
