package gate

import (
	"context"
	"math"
	"sync/atomic"
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

// pace is the rate limit of a gate.
type pace struct {
	gate     *Gate
	limiter  *rate.Limiter
	turn     chan struct{} // held by the one order that waits for a token
	waitedAt atomic.Int64  // when an order last waited for the limit, in Unix nanoseconds
	passed   atomic.Int64  // permits that have their token
	more     chan struct{} // room for one; see Gate.Passed
}

func newPace(g *Gate, perSecond float64) *pace {
	p := &pace{gate: g, limiter: rate.NewLimiter(rate.Inf, 1), turn: make(chan struct{}, 1), more: make(chan struct{}, 1)}
	p.set(perSecond)
	return p
}

// set sets the limit in requests per second, with a burst of at most 50 ms worth of them.
// 0 means no limit.
func (p *pace) set(perSecond float64) {
	defer p.tellMore()
	if perSecond <= 0 {
		p.limiter.SetLimit(rate.Inf)
		return
	}
	p.limiter.SetBurst(max(1, int(perSecond/20)))
	p.limiter.SetLimit(rate.Limit(perSecond))
}

// limit returns the limit in requests per second, 0 if there is none, and whether it made
// an order wait within rateMemory.
func (p *pace) limit() (perSecond float64, binds bool) {
	l := p.limiter.Limit()
	if l == rate.Inf {
		return 0, false
	}
	return float64(l), time.Since(time.Unix(0, p.waitedAt.Load())) < rateMemory
}

// pass notes that a permit has its token.
func (p *pace) pass(permit *Permit) {
	permit.passed = true
	p.passed.Add(1)
	if p.limiter.Limit() != rate.Inf {
		p.tellMore()
	}
}

func (p *pace) tellMore() {
	select {
	case p.more <- struct{}{}:
	default: // whoever waits finds out
	}
}

// leastAhead is how many orders the pool has in hand at least for a rate limit.
const leastAhead = 2

// InHand returns how many orders the pool should have in hand: those that have passed the rate limit, and as many
// as it lets through in a second. More would wait here while other workers, whose share is free, have none.
func (g *Gate) InHand() int {
	limit := g.pace.limiter.Limit()
	if limit >= math.MaxInt32 {
		return math.MaxInt32
	}
	return int(g.pace.passed.Load()) + max(leastAhead, int(math.Ceil(float64(limit))))
}

// Passed receives after an order has passed the rate limit or the limit was set: InHand may say more.
func (g *Gate) Passed() <-chan struct{} { return g.pace.more }

// await takes a token of the limit and returns how long it waited, at least 1 ns if it
// waited at all.
//
// Only one order waits for a token at a time. If many orders reserved tokens
// ahead, they would use them at the old rate after the limit is lowered, and
// every worker's share is lowered when another worker joins (R12).
func (p *pace) await(ctx context.Context) (waited time.Duration, err error) {
	if p.limiter.Limit() == rate.Inf {
		return 0, nil
	}
	began := time.Now()
	waits, err := p.take(ctx)
	if !waits {
		return 0, err
	}
	now := time.Now()
	waited = max(1, now.Sub(began))
	if waited >= minRateWait {
		p.waitedAt.Store(now.UnixNano())
	}
	return waited, err
}

// take takes a token and reports whether it had to wait. After a change of the gate it
// reserves the token again, at the new limit.
func (p *pace) take(ctx context.Context) (waited bool, err error) {
	select {
	case p.turn <- struct{}{}:
	default:
		waited = true
		select {
		case p.turn <- struct{}{}:
		case <-ctx.Done():
			return true, context.Cause(ctx)
		case <-p.gate.draining:
			return true, ErrDraining
		}
	}
	defer func() { <-p.turn }()
	for {
		changed := p.gate.Changed()
		r := p.limiter.Reserve()
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
			if p.gate.IsDraining() {
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
