package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"orderpost/internal/settle"
)

// epoch is the start of the simulated clock.
var epoch = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// engine runs events in the order of their simulated times. All randomness comes from
// its streams (streams.go), so a seed reproduces a schedule.
type engine struct {
	at      time.Duration
	events  []event
	serial  uint64
	rng     *rand.Rand // draws from cur
	cur     *stream    // the stream of what runs, and of all that it schedules
	running *proc      // the running proc; nil = an event of the world
	steps   int
	trace   *Trace

	schedule   *Schedule
	streams    []*stream
	slab       []stream
	reached    Strikes
	coroutines *coroutines
	kept       *[]Edit // collects what may be dropped; nil = nobody wants to know
}

type event struct {
	at  time.Duration
	n   uint64
	run func()
	cur *stream
}

func newEngine(s *Schedule, trace *Trace) *engine {
	e := &engine{schedule: s, trace: trace, events: make([]event, 0, 64)}
	e.rng = rand.New(e)
	if s.Old {
		e.cur = &stream{}
		e.cur.src.Seed(s.Seed, 0x6f72646572706f73)
		return e
	}
	e.cur = e.stream(streamOf(ofWorld, 0, 0, 0))
	return e
}

func (e *engine) now() time.Time { return epoch.Add(e.at) }

// after schedules run in d. Events at the same time run in the order of their creation.
func (e *engine) after(d time.Duration, run func()) {
	e.serial++
	e.events = append(e.events, event{e.at + max(d, 0), e.serial, run, e.cur})
	for i := len(e.events) - 1; i > 0; {
		up := (i - 1) / 2
		if !e.events[i].before(&e.events[up]) {
			break
		}
		e.events[i], e.events[up] = e.events[up], e.events[i]
		i = up
	}
}

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.n < b.n }

// step runs the next event. It returns false if there is none.
func (e *engine) step() bool {
	if len(e.events) == 0 {
		return false
	}
	first, last := e.events[0], len(e.events)-1
	e.events[0] = e.events[last]
	e.events[last].run = nil
	e.events = e.events[:last]
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < last && e.events[c].before(&e.events[least]) {
				least = c
			}
		}
		if least == i {
			break
		}
		e.events[i], e.events[least] = e.events[least], e.events[i]
		i = least
	}
	e.at, e.cur = first.at, first.cur
	e.steps++
	first.run()
	return true
}

func (e *engine) chance(p float64) bool { return p > 0 && e.rng.Float64() < p }

// between returns a random duration from lo to hi.
func (e *engine) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(e.rng.Int64N(int64(hi-lo)+1))
}

// killed is the panic that unwinds a proc of a killed process.
type killed struct{}

// proc is a coroutine of one process. Anything else may happen between two of its
// steps, including the end of its process.
type proc struct {
	host    *host
	runs    *coroutine
	started bool

	wait   uint64          // number of the current wait; 0 = none
	onLink bool            // the wait is for the broker's answer
	ctx    context.Context // ends the wait early; may be nil
	over   bool            // the coroutine has ended or must end

	stream   *stream // of the numbers that it draws; nil = that of its process
	step     Step
	checking bool      // the proc reads results for deliveries (for mutations)
	delivery *delivery // the delivery that the proc handles; may be nil
}

// spawn starts body as a proc of h, at once or as soon as the caller waits.
func (e *engine) spawn(h *host, body func(p *proc)) *proc {
	p := &proc{host: h, runs: e.coroutines.get()}
	p.runs.body = func() {
		defer func() {
			p.over = true
			h.left(p)
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					panic(fmt.Sprintf("%s: %v\n%s", h.name, r, debug.Stack())) // otherwise the trace would show another stack
				}
			}
		}()
		body(p)
	}
	h.procs = append(h.procs, p)
	p.wait = e.newWait()
	n := p.wait
	e.after(0, func() { e.wake(p, n) })
	return p
}

func (e *engine) newWait() uint64 {
	e.serial++
	return e.serial
}

// wake resumes p if it is still in wait n. A frozen process resumes when it thaws.
func (e *engine) wake(p *proc, n uint64) {
	switch {
	case p.over || p.wait != n || p.host.dead:
		return
	case p.host.frozen > e.at:
		e.after(p.host.frozen-e.at, func() { e.wake(p, n) })
		return
	}
	p.wait = 0
	outer, stream := e.running, e.cur
	if e.running, e.cur = p, p.host.stream; p.stream != nil {
		e.cur = p.stream
	}
	p.resume()
	e.running, e.cur = outer, stream
}

// resume runs p until it waits or ends.
func (p *proc) resume() {
	p.started = true
	c := p.runs
	if c.next(); p.over && p.runs != nil {
		p.runs = nil
		p.host.e.coroutines.put(c)
	}
}

// suspend yields until the current wait is over.
func (p *proc) suspend() {
	if !p.over && !p.host.dead {
		p.runs.yield(struct{}{})
	}
	if p.over || p.host.dead {
		p.over = true
		panic(killed{})
	}
}

// kill ends a proc at its current step.
func (p *proc) kill() {
	if p.over {
		return
	}
	p.over = true
	if p.started {
		p.resume() // suspend panics
		return
	}
	p.host.e.coroutines.put(p.runs)
}

// sleep returns nil after d, or an error if ctx ends first.
func (e *engine) sleep(ctx context.Context, d time.Duration) error {
	p := e.running
	if err := ctx.Err(); err != nil {
		p.host.boundary(p)
		return err
	}
	n := e.newWait()
	p.wait, p.ctx = n, ctx
	e.after(d, func() { e.wake(p, n) })
	p.suspend()
	p.ctx = nil
	return ctx.Err()
}

// nap sleeps for d without a context.
func (e *engine) nap(d time.Duration) {
	p := e.running
	n := e.newWait()
	p.wait = n
	e.after(d, func() { e.wake(p, n) })
	p.suspend()
}

var errLink = errors.New("no answer from the broker")

// runtime implements settle.Runtime for a process.
type runtime struct {
	e *engine
	h *host
}

func (r runtime) Now() time.Time {
	now := r.h.now()
	switch {
	case r.h.w.drops(WallClock):
		return now.Round(0)
	case r.h.w.drops(Monotonic) && r.h.machine != nil:
		return r.e.now().Add(-r.h.machine.slept)
	}
	return now
}

func (r runtime) Sleep(ctx context.Context, d time.Duration) error { return r.e.sleep(ctx, d) }

func (r runtime) WithDeadline(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	h := r.e.running.host
	r.e.after(at.Sub(r.Now()), func() {
		cancel(context.DeadlineExceeded)
		h.poke()
	})
	return ctx, func() { cancel(nil) }
}

// Each runs the calls one after another, starting at a random one. They do not
// interact.
func (r runtime) Each(n, _ int, do func(i int) error) (err error) {
	if n == 0 {
		return nil
	}
	first := r.e.rng.IntN(n)
	for i := range n {
		err = errors.Join(err, do((first+i)%n))
	}
	return err
}

func (r runtime) NewLock() settle.Lock { return &lock{e: r.e} }

// Survivable reports whether a panic is that of a toxic order. Any other panic ends
// the process or is a mistake.
func (r runtime) Survivable(panicked any) bool { return panicked == any(errToxic) }
