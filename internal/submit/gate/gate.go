package gate

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// Config says how hard the API may be asked, and when the gate shuts and
// tries again. Package submit fills it from the settings.
type Config struct {
	Concurrency   int           // attempts at the same time
	RateLimit     float64       // attempts per second; 0 = no limit
	Patience      time.Duration // how long an order waits at a gate that stays shut
	HoldRetry     time.Duration // before an order tries a hold caused by answers; 0 = only a person resumes
	OthersFirst   time.Duration // how long a suspect order leaves a trial to others
	LongestWait   time.Duration // of a throttle that says no time
	BreakerRatio  float64       // share of failures that opens the breaker; 0 = never
	BreakerMin    int           // requests in the window below which it does not judge
	BreakerWindow time.Duration // over which it counts
	BreakerOpen   time.Duration // between two probes while it is open
	ProbeDelay    time.Duration // before a denied key is probed
}

// Hooks are called by the gate; none may be nil.
type Hooks struct {
	// Changed is called after each change, in order. It is called with the gate's
	// lock held: it must be quick, and must not call the gate.
	Changed func(State)
	// Resumed is called when a person resumes a run of refusals.
	Resumed func()
}

// Gate is the one place that every attempt passes. It is shut while any block
// stands (block.go), lets one order at a time through while blocks are on
// trial, and else as many as the ramp and the rate limit allow.
type Gate struct {
	cfg     Config
	log     zerolog.Logger
	hooks   Hooks
	limiter *rate.Limiter
	turn    chan struct{} // held by the order that waits for a token of the rate limit
	leaving chan struct{} // closed by Leave

	rateWaited atomic.Int64 // when an order last waited for the limit, in Unix nanoseconds

	mu       sync.Mutex
	blocks   map[string]*block
	waiters  *list.List // of *waiter, in order of arrival
	inflight int        // permits that are out
	trials   int        // of them, those given on trial
	limit    int        // the ramp: permits at the same time, at most cfg.Concurrency
	halved   time.Time  // when a throttle last cut the ramp
	throttle int        // throttles in a row
	breaker  breaker
	failures failures
	failing  string        // why the breaker opened
	changed  chan struct{} // closed and renewed at every change
	ended    bool
	left     bool // leaving is closed
}

// waiter is one order in front of the gate.
type waiter struct {
	ready chan *Permit
	// wary: this order was denied or called back before; on a trial, others go first.
	wary bool
}

// Permit is the right to make one attempt. It must be given back with Release.
type Permit struct {
	gate     *Gate
	trial    bool
	released bool // given back; for its own goroutine alone
	// rateWait is the time that was waited for the rate limit.
	rateWait time.Duration
}

var (
	// errPatience ends a wait at a gate that stays shut.
	errPatience = errors.New("the gate is closed")
	// errClosed ends waits after Close.
	errClosed = errors.New("the submitter is closed")
	// ErrLeaving ends waits after Leave.
	ErrLeaving = errors.New("the worker is stopping")
)

// New makes a gate that is open, with the ramp at one.
func New(cfg Config, log zerolog.Logger, hooks Hooks) *Gate {
	g := &Gate{cfg: cfg, log: log, hooks: hooks, limiter: rate.NewLimiter(rate.Inf, 1), turn: make(chan struct{}, 1), leaving: make(chan struct{}),
		blocks: map[string]*block{}, waiters: list.New(), limit: 1, breaker: newBreaker(cfg), changed: make(chan struct{})}
	g.setRate(cfg.RateLimit)
	return g
}

// SetLimit changes the rate limit, in requests per second; 0 = none.
func (g *Gate) SetLimit(perSecond float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.setRate(perSecond)
	g.notify()
}

// setRate keeps bursts to 50 ms' worth.
func (g *Gate) setRate(perSecond float64) {
	if perSecond <= 0 {
		g.limiter.SetLimit(rate.Inf)
		return
	}
	g.limiter.SetBurst(max(1, int(perSecond/20)))
	g.limiter.SetLimit(rate.Limit(perSecond))
}

// Open says whether orders may be taken from the queue: the gate is open, or
// wants one for a trial.
func (g *Gate) Open() bool { return g.Room() > 0 }

// trialRoom is the number of orders worth having while the gate is on trial:
// one that tries, and others in case it is the one that was denied before.
const trialRoom = 4

// Room is the number of orders that it makes sense to hold now: 0 while the
// gate is shut, a few on a trial, else Config.Concurrency.
func (g *Gate) Room() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.stage() {
	case StageOpen:
		return g.cfg.Concurrency
	case StageTrial:
		return max(0, trialRoom-g.trials-g.waiters.Len())
	default:
		return 0
	}
}

// Wait returns when the gate is open, or with the context's cause.
func (g *Gate) Wait(ctx context.Context) error {
	for {
		changed := g.Changed()
		if g.Open() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Changed gives a channel that is closed at the next change of the gate's
// state. Take it before looking at the state.
func (g *Gate) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// State is the gate at one moment.
type State struct {
	Open bool
	// Reasons says, for each block, why the gate is shut; empty if it is open.
	Reasons []string
	Blocks  []BlockState
	// InFlight counts attempts that have passed and not ended, Waiting orders
	// in hand in front of the gate.
	InFlight, Waiting int
	// Limit is the number of attempts that may be in flight now (the ramp).
	Limit int
	// Rate is in requests per second; 0 = no limit.
	Rate float64
	// RateBinds: the limit made an order wait within the last seconds
	// (rateMemory); more workers would post no more.
	RateBinds bool
}

// State reports the gate at this moment.
func (g *Gate) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state()
}

func (g *Gate) state() State {
	s := State{Open: len(g.blocks) == 0, InFlight: g.inflight, Waiting: g.waiters.Len(), Limit: g.limit}
	if l := g.limiter.Limit(); l != rate.Inf {
		s.Rate = float64(l)
		s.RateBinds = time.Since(time.Unix(0, g.rateWaited.Load())) < rateMemory
	}
	for name, b := range g.blocks {
		s.Blocks = append(s.Blocks, BlockState{Name: name, Reason: b.reason, Stage: b.stage, Since: b.since, Until: b.until})
	}
	slices.SortFunc(s.Blocks, func(a, b BlockState) int { return strings.Compare(a.Name, b.Name) })
	for _, b := range s.Blocks {
		s.Reasons = append(s.Reasons, b.Reason)
	}
	return s
}

// notify tells everybody that the state has changed, and lets in who may enter.
func (g *Gate) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
	g.hooks.Changed(g.state())
	g.admit()
}

// Enter waits for a permit. While the gate stays shut it waits no longer than
// Config.Patience; for the ramp and the rate limit it waits on.
func (g *Gate) Enter(ctx context.Context, wary bool) (*Permit, error) {
	var total time.Duration
	for {
		p, err := g.queue(ctx, wary)
		if err != nil {
			return nil, err
		}
		waited, err := g.awaitRate(ctx)
		if err != nil {
			p.Release(Signal{})
			return nil, err
		}
		total += waited
		if p.rateWait = total; waited == 0 || p.stillGood() {
			return p, nil
		}
		p.Release(Signal{}) // shut in the meantime
	}
}

func (g *Gate) queue(ctx context.Context, wary bool) (*Permit, error) {
	w := &waiter{ready: make(chan *Permit, 1), wary: wary}
	g.mu.Lock()
	if g.ended {
		g.mu.Unlock()
		return nil, errClosed
	}
	e := g.waiters.PushBack(w)
	g.admit()
	if wary && len(w.ready) == 0 {
		g.notify() // so that the time of its turn is reckoned with
	}
	g.mu.Unlock()
	select {
	case p := <-w.ready: // the usual case costs no timer
		return checked(p)
	default:
	}
	patience := time.NewTimer(g.cfg.Patience)
	defer patience.Stop()
	for {
		select {
		case p := <-w.ready:
			return checked(p)
		case <-ctx.Done():
			g.withdraw(e, w)
			return nil, context.Cause(ctx)
		case <-g.leaving:
			g.withdraw(e, w)
			return nil, ErrLeaving
		case <-patience.C:
			if g.blocked() {
				g.withdraw(e, w)
				return nil, errPatience
			}
			patience.Reset(g.cfg.Patience)
		}
	}
}

// checked maps the nil that close hands out.
func checked(p *Permit) (*Permit, error) {
	if p == nil {
		return nil, errClosed
	}
	return p, nil
}

func (g *Gate) blocked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.blocks) > 0
}

// withdraw takes a waiter back; a permit that it was given meanwhile is returned.
func (g *Gate) withdraw(e *list.Element, w *waiter) {
	g.mu.Lock()
	g.waiters.Remove(e)
	if len(g.blocks) > 0 {
		g.notify() // on a trial there is room again, which the intake waits for
	}
	g.mu.Unlock()
	select {
	case p := <-w.ready:
		if p != nil {
			p.Release(Signal{})
		}
	default:
	}
}

// RateWaited is the time that the rate limit made the order wait.
func (p *Permit) RateWaited() time.Duration { return p.rateWait }

// stillGood says whether the permit would be given again.
func (p *Permit) stillGood() bool {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	s := p.gate.stage()
	return s == StageOpen || (s == StageTrial && p.trial)
}

// admit gives permits to the waiters in front, as many as may go.
func (g *Gate) admit() {
	for e := g.waiters.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		stage := g.stage()
		switch {
		case stage == StageOpen && g.inflight < g.limit, stage == StageTrial && g.trials == 0 && !g.yields(w):
			g.waiters.Remove(e)
			p := &Permit{gate: g, trial: stage == StageTrial}
			g.inflight++
			if p.trial {
				g.trials++
			}
			w.ready <- p
		case stage == StageTrial && g.trials == 0: // wary, let others go first
		default:
			return
		}
		e = next
	}
}

// Leaving gives a channel that Leave closes.
func (g *Gate) Leaving() <-chan struct{} { return g.leaving }

// Leave ends the waits of orders that have no permit yet, or a permit and no token.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.left {
		g.left = true
		close(g.leaving)
		g.notify()
	}
}

// IsLeaving says whether Leave was called.
func (g *Gate) IsLeaving() bool {
	select {
	case <-g.leaving:
		return true
	default:
		return false
	}
}

// Close ends all waits.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	for e := g.waiters.Front(); e != nil; e = g.waiters.Front() {
		g.waiters.Remove(e).(*waiter).ready <- nil
	}
}
