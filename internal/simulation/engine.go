package simulation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"orderpost/internal/settle"
)

// epoch is the simulated clock's zero.
var epoch = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// engine is simulated time: events in the order of their times, one at a time.
// Everything random comes from its one generator, so that a seed gives the
// same schedule again.
type engine struct {
	at      time.Duration
	events  []event
	serial  uint64
	rng     *rand.Rand
	running *proc // whose turn it is; nil in an event of the world's own
	steps   int
	trace   *Trace
}

type event struct {
	at  time.Duration
	n   uint64
	run func()
}

func newEngine(seed uint64, trace *Trace) *engine {
	return &engine{rng: rand.New(rand.NewPCG(seed, 0x6f72646572706f73)), trace: trace, events: make([]event, 0, 64)}
}

func (e *engine) now() time.Time { return epoch.Add(e.at) }

// after lets run happen in d. Events of one time happen in the order in which
// they were made.
func (e *engine) after(d time.Duration, run func()) {
	e.serial++
	e.events = append(e.events, event{e.at + max(d, 0), e.serial, run})
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

// step lets the next event happen; false: there is none.
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
	e.at = first.at
	e.steps++
	first.run()
	return true
}

func (e *engine) chance(p float64) bool { return p > 0 && e.rng.Float64() < p }

// between gives a duration from lo to hi.
func (e *engine) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(e.rng.Int64N(int64(hi-lo)+1))
}

// killed unwinds a proc whose process is gone.
type killed struct{}

// proc is a sequence of steps of one process, a coroutine: between two steps
// anything else may happen, its own process's end among it.
type proc struct {
	host *host
	next func() (struct{}, bool)
	stop func()
	give func(struct{}) bool

	wait   uint64          // serial of the wait that it is in; 0 = none
	onLink bool            // it waits for the broker's answer
	ctx    context.Context // ends the wait early; nil = nothing does
	over   bool            // the coroutine has ended, or must

	checking bool      // it reads results for deliveries (for mutations)
	delivery *delivery // that it handles; nil = none
}

// spawn starts body as a proc of h at once, or as soon as the caller waits.
func (e *engine) spawn(h *host, body func(p *proc)) *proc {
	p := &proc{host: h}
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			p.over = true
			h.left(p)
			if r := recover(); r != nil {
				if _, ok := r.(killed); !ok {
					panic(fmt.Sprintf("%s: %v\n%s", h.name, r, debug.Stack())) // the stack that is told else is not the proc's
				}
			}
		}()
		p.give = yield
		body(p)
	})
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

// wake lets p go on if it still is in the wait n. A frozen process does not
// notice before it thaws.
func (e *engine) wake(p *proc, n uint64) {
	switch {
	case p.over || p.wait != n || p.host.dead:
		return
	case p.host.frozen > e.at:
		e.after(p.host.frozen-e.at, func() { e.wake(p, n) })
		return
	}
	p.wait = 0
	outer := e.running
	e.running = p
	p.next()
	e.running = outer
}

// suspend gives the turn away until the wait that was begun is over.
func (p *proc) suspend() {
	if p.over || p.host.dead || !p.give(struct{}{}) {
		p.over = true
		panic(killed{})
	}
}

// kill ends a proc where it stands.
func (p *proc) kill() {
	if !p.over {
		p.over = true
		p.stop()
	}
}

// sleep returns nil after d, or an error when ctx ends first.
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

// nap is a sleep that nothing ends early.
func (e *engine) nap(d time.Duration) {
	p := e.running
	n := e.newWait()
	p.wait = n
	e.after(d, func() { e.wake(p, n) })
	p.suspend()
}

var errLink = errors.New("no answer from the broker")

// Runtime of the real code (settle.Runtime).
type runtime struct{ e *engine }

func (r runtime) Now() time.Time { return r.e.now() }

func (r runtime) Sleep(ctx context.Context, d time.Duration) error { return r.e.sleep(ctx, d) }

func (r runtime) WithDeadline(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	h := r.e.running.host
	r.e.after(at.Sub(r.e.now()), func() {
		cancel(context.DeadlineExceeded)
		h.poke()
	})
	return ctx, func() { cancel(nil) }
}

// Each does one after the other, from anywhere among them: nothing that they do
// meets.
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

// Survivable: some orders panic; any other panic ends the process, or is a
// mistake.
func (r runtime) Survivable(panicked any) bool { return panicked == any(errToxic) }
