package gate

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// Config limits the load on the API and says when the gate shuts and tries
// again. Package submit fills it from the settings.
type Config struct {
	Concurrency   int           // attempts at the same time
	RateLimit     float64       // attempts per second; 0 = no limit
	Patience      time.Duration // how long an order waits at a gate that stays closed
	HoldRetry     time.Duration // from a hold caused by an answer to its trial; 0 = only a person resumes
	OthersFirst   time.Duration // how long a suspect order lets other orders try first
	LongestWait   time.Duration // longest throttle when the API names no time
	BreakerRatio  float64       // share of failures that opens the breaker; 0 = never
	BreakerMin    int           // fewest requests in the window for the ratio to count
	BreakerWindow time.Duration // moving window of the breaker
	BreakerOpen   time.Duration // between two probes while the breaker is open
	ProbeDelay    time.Duration // from a denied key to its probe
}

// Hooks are functions that the gate calls. None may be nil.
type Hooks struct {
	// Changed is called after each change, in order. The gate holds its lock
	// meanwhile, so Changed must be quick and must not call the gate.
	Changed func(State)
	// Resumed is called when a person resumes a run of refusals.
	Resumed func()
}

// Gate admits attempts. It admits none while a block is shut (block.go), one at
// a time while blocks are on trial, and otherwise as many as the ramp and the
// rate limit allow. It is safe for concurrent use.
type Gate struct {
	cfg      Config
	log      zerolog.Logger
	hooks    Hooks
	pace     *pace
	draining chan struct{} // closed by Drain

	mu            sync.Mutex
	blocks        map[string]*block
	waiters       *list.List // of *waiter, in order of arrival
	inflight      int        // permits given out
	trials        int        // permits given out on trial
	limit         int        // the ramp: permits allowed at the same time, at most cfg.Concurrency
	rampCut       time.Time  // when a throttle last cut the ramp
	throttle      int        // consecutive throttles
	breaker       breaker
	failures      failures
	breakerReason string        // why the breaker opened
	changed       chan struct{} // closed and renewed at every change
	closed        bool
	drained       bool // Drain was called
}

// waiter is one order that waits for a permit.
type waiter struct {
	ready   chan *Permit
	suspect bool // an earlier attempt of this order was denied: on a trial, others go first
}

// Permit is the right to make one attempt. Its holder must call Release.
type Permit struct {
	gate     *Gate
	trial    bool
	released bool          // only the holder's goroutine uses it
	passed   bool          // it has its token of the rate limit
	rateWait time.Duration // time spent waiting for the rate limit
}

var (
	// errPatience is returned when the gate stayed closed for Config.Patience.
	errPatience = errors.New("the gate is closed")
	// errClosed is returned after Close.
	errClosed = errors.New("the submitter is closed")
	// ErrDraining is returned after Drain.
	ErrDraining = errors.New("the worker is stopping")
	// ErrWoken is returned when the channel that an order waits with was closed.
	ErrWoken = errors.New("an order that waited at the gate was woken")
)

// New returns an open gate with the ramp at one.
func New(cfg Config, log zerolog.Logger, hooks Hooks) *Gate {
	g := &Gate{cfg: cfg, log: log, hooks: hooks, draining: make(chan struct{}),
		blocks: map[string]*block{}, waiters: list.New(), limit: 1, breaker: newBreaker(cfg), changed: make(chan struct{})}
	g.pace = newPace(g, cfg.RateLimit)
	return g
}

// RateLimit returns the limit of this process in requests per second; 0 = there is none.
func (g *Gate) RateLimit() float64 {
	perSecond, _ := g.pace.limit()
	return perSecond
}

// SetLimit sets the rate limit in requests per second. 0 means no limit.
func (g *Gate) SetLimit(perSecond float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pace.set(perSecond)
	g.notify()
}

// Open reports whether the pool may pull orders: the gate is open, or it wants an
// order for a trial.
func (g *Gate) Open() bool { return g.Capacity() > 0 }

// trialCapacity is the number of orders to hold during a trial. One order tries.
// The others are a reserve in case that order is suspect.
const trialCapacity = 4

// Capacity returns how many orders the pool should hold now: 0 while the gate is
// shut, a few during a trial, otherwise Config.Concurrency.
func (g *Gate) Capacity() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch g.stage() {
	case StageOpen:
		return g.cfg.Concurrency
	case StageTrial:
		return max(0, trialCapacity-g.trials-g.waiters.Len())
	default:
		return 0
	}
}

// Wait blocks until the gate is open. Its error is the context's cause.
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

// Changed returns a channel that is closed at the next change of the gate's
// state. Call it before you read the state, to miss no change.
func (g *Gate) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// State is a copy of the gate's state.
type State struct {
	Open bool
	// Reasons holds the reason of each block. It is empty if the gate is open.
	Reasons []string
	Blocks  []BlockState
	// InFlight counts attempts with a permit. Waiting counts orders in hand that
	// wait for one.
	InFlight, Waiting int
	// Limit is the number of attempts that may be in flight now (the ramp).
	Limit int
	// Rate is the limit in requests per second; 0 = no limit.
	Rate float64
	// RateBinds says that the rate limit made an order wait within rateMemory.
	// More workers would not post more orders.
	RateBinds bool
	// Throttled says that the API asked for slower requests within rateMemory.
	Throttled bool
}

// State returns the gate's current state.
func (g *Gate) State() State {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state()
}

func (g *Gate) state() State {
	s := State{Open: len(g.blocks) == 0, InFlight: g.inflight, Waiting: g.waiters.Len(), Limit: g.limit, Throttled: !g.rampCut.IsZero() && time.Since(g.rampCut) < rateMemory}
	s.Rate, s.RateBinds = g.pace.limit()
	for name, b := range g.blocks {
		s.Blocks = append(s.Blocks, BlockState{Name: name, Reason: b.reason, Stage: b.stage, Since: b.since.UTC(), Until: b.until.UTC()})
	}
	slices.SortFunc(s.Blocks, func(a, b BlockState) int { return strings.Compare(a.Name, b.Name) })
	for _, b := range s.Blocks {
		s.Reasons = append(s.Reasons, b.Reason)
	}
	return s
}

// notify announces a change and admits waiters. The caller holds g.mu.
func (g *Gate) notify() {
	close(g.changed)
	g.changed = make(chan struct{})
	g.hooks.Changed(g.state())
	g.admit()
}

// Enter waits for a permit. At a gate that stays closed it gives up after
// Config.Patience. For the ramp and the rate limit it waits as long as it takes.
// suspect says that an earlier attempt of this order was denied. An order that waits
// leaves with ErrWoken when wake is closed, which may be nil.
func (g *Gate) Enter(ctx context.Context, suspect bool, wake <-chan struct{}) (*Permit, error) {
	var total time.Duration
	for {
		p, err := g.waitForPermit(ctx, suspect, wake)
		if err != nil {
			return nil, err
		}
		waited, err := g.pace.await(ctx)
		if err != nil {
			p.Release(Signal{})
			return nil, err
		}
		g.pace.pass(p)
		total += waited
		if p.rateWait = total; waited == 0 || p.stillValid() {
			return p, nil
		}
		p.Release(Signal{}) // the gate was shut while this order waited for the rate limit
	}
}

func (g *Gate) waitForPermit(ctx context.Context, suspect bool, wake <-chan struct{}) (*Permit, error) {
	w := &waiter{ready: make(chan *Permit, 1), suspect: suspect}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil, errClosed
	}
	e := g.waiters.PushBack(w)
	g.admit()
	if suspect && len(w.ready) == 0 {
		g.notify() // Tick must wake up when this waiter's turn comes
	}
	g.mu.Unlock()
	select {
	case p := <-w.ready: // the common case needs no timer
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
		case <-g.draining:
			g.withdraw(e, w)
			return nil, ErrDraining
		case <-wake:
			g.withdraw(e, w)
			return nil, ErrWoken
		case <-patience.C:
			if g.blocked() {
				g.withdraw(e, w)
				return nil, errPatience
			}
			patience.Reset(g.cfg.Patience)
		}
	}
}

// checked maps the nil permit that Close hands out to errClosed.
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

// withdraw removes a waiter and releases the permit if it has just got one.
func (g *Gate) withdraw(e *list.Element, w *waiter) {
	g.mu.Lock()
	g.waiters.Remove(e)
	if len(g.blocks) > 0 {
		g.notify() // during a trial, the intake waits for this capacity
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

// RateWaited returns how long the order waited for the rate limit.
func (p *Permit) RateWaited() time.Duration { return p.rateWait }

// stillValid reports whether the gate would give the permit again.
func (p *Permit) stillValid() bool {
	p.gate.mu.Lock()
	defer p.gate.mu.Unlock()
	s := p.gate.stage()
	return s == StageOpen || (s == StageTrial && p.trial)
}

// admit gives permits to the first waiters, as many as may go. The caller holds
// g.mu.
func (g *Gate) admit() {
	for e := g.waiters.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		stage := g.stage()
		switch {
		case stage == StageOpen && g.inflight < g.limit, stage == StageTrial && g.trials == 0 && !g.yieldsTrial(w):
			g.waiters.Remove(e)
			p := &Permit{gate: g, trial: stage == StageTrial}
			g.inflight++
			if p.trial {
				g.trials++
			}
			w.ready <- p
		case stage == StageTrial && g.trials == 0: // a suspect order lets others go first
		default:
			return
		}
		e = next
	}
}

// Draining returns a channel that Drain closes.
func (g *Gate) Draining() <-chan struct{} { return g.draining }

// Drain ends the waits of all orders that have no permit or no rate limit token
// yet. Their Enter returns ErrDraining. Attempts in flight go on.
func (g *Gate) Drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.drained {
		g.drained = true
		close(g.draining)
		g.notify()
	}
}

// IsDraining reports whether Drain was called.
func (g *Gate) IsDraining() bool {
	select {
	case <-g.draining:
		return true
	default:
		return false
	}
}

// Close ends all waits. Enter returns an error from then on.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for e := g.waiters.Front(); e != nil; e = g.waiters.Front() {
		g.waiters.Remove(e).(*waiter).ready <- nil
	}
}
