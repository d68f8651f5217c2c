package gate

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// rateMemory is how long the rate limit counts as binding after it made an
// order wait: longer than a limit of one order in a few seconds needs between
// two of them.
const rateMemory = 10 * time.Second

// rateFelt is the shortest wait that counts so: less is the time of two orders
// that come for their tokens at once.
const rateFelt = time.Millisecond

// awaitRate takes a token of the rate limit, and says how long it waited: more
// than 0 wherever it did. One order waits for its token at a time: tokens that
// many had reserved ahead would still be used at the old rate after the limit
// was lowered, and the fleet's shares are lowered when a worker joins (R12).
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
	if waited >= rateFelt {
		g.rateWaited.Store(now.UnixNano())
	}
	return waited, err
}

// takeToken says whether it had to wait. A change of the gate has the token
// reckoned anew.
func (g *Gate) takeToken(ctx context.Context) (waited bool, err error) {
	select {
	case g.turn <- struct{}{}:
	default:
		waited = true
		select {
		case g.turn <- struct{}{}:
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-g.leaving:
			return true, ErrLeaving
		}
	}
	defer func() { <-g.turn }()
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
			if g.IsLeaving() {
				t.Stop()
				return true, ErrLeaving
			}
		case <-ctx.Done():
			r.Cancel()
			t.Stop()
			return true, context.Cause(ctx)
		}
		t.Stop()
	}
}

// ThrottleUntil shuts the gate since another worker of the fleet was asked for
// slower requests. A longer wait that is under way stays.
func (g *Gate) ThrottleUntil(until time.Time, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.blocks[BlockThrottle]; b != nil && !until.After(b.until) {
		return
	}
	g.shut(BlockThrottle, reason, until)
}

// ResumeAnswers is Resume for a person who looked at the API and not at this
// worker: what was shut because of answers is lifted or probed, other holds
// (of the broker's storage, of the fleet) stay.
func (g *Gate) ResumeAnswers() {
	g.mu.Lock()
	_, refusals := g.blocks[BlockRefusals]
	for name, b := range g.blocks {
		switch name {
		case BlockAnswer, BlockRefusals:
			g.lift(name)
		case BlockBreaker, BlockCredentials:
			if b.stage == StageShut {
				b.until = time.Now()
			}
		}
	}
	g.notify()
	g.mu.Unlock()
	if refusals {
		g.hooks.Resumed()
	}
}
