package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// worker models internal/cli/service's pool on one simulated process: intake, slots, drain
// and a submitter. The shipped settle.Handler handles the deliveries.
type worker struct {
	*host
	free     int
	inHand   int
	stopping bool
	ticking  bool
	unstored int // orders that wait until the broker stores results again; the gate is closed (R10)

	handler *settle.Handler

	work, settle context.Context
	endWork      context.CancelCauseFunc
	endSettle    context.CancelCauseFunc
}

var errDraining = errors.New("the worker is stopping")

func (w *world) startWorker(i int) *worker {
	k := &worker{host: w.newHost(fmt.Sprint("w", i), streamOf(ofWorker, i, w.started[i], 0)), free: w.cfg.Slots}
	w.started[i]++
	k.faulty, k.machine = !w.quiet, &w.machines[i]
	if c := k.machine.jumped; c != 0 {
		w.witness.tell(oracle.Event{Kind: oracle.ClockSet, Process: k.run, Shift: oracle.Moment(c), Why: "start"})
	}
	k.open()
	k.handler = settle.NewHandler(k.q.Worker, settle.HandlerOptions{
		Policy: w.cfg.Policy, Submit: k.submit, Asks: func(*order.Order, order.History) bool { return w.cfg.Lookup != nil }, Draining: func() bool { return k.stopping },
		Refused: k.resultRefused, Stored: k.stored,
	})
	k.work, k.endWork = context.WithCancelCause(context.Background())
	k.settle, k.endSettle = context.WithCancelCause(context.Background())
	k.restart = func() {
		w.e.after(w.e.between(10*time.Millisecond, 5*time.Second), func() { w.workers[i] = w.startWorker(i) })
	}
	w.e.trace.say(w.e, k.name, "started", "", "")
	w.e.spawn(k.host, func(*proc) { k.intake() })
	if w.trims() {
		w.e.spawn(k.host, func(*proc) { k.trim() }).stream = w.e.stream(streamOf(ofTrimmer, i, w.started[i]-1, 0))
	}
	if !w.e.schedule.Old && (w.mutation.inAll() || w.mutation == Sweep) {
		w.e.spawn(k.host, func(*proc) { k.sweep() }).stream = w.e.stream(streamOf(ofTrimmer, i, w.started[i]-1, 2))
	}
	if w.cfg.BrokerClocks > 0 && !w.drops(Overdue) && !w.drops(Delays) { // with Delays it would ask for ever
		w.e.spawn(k.host, func(*proc) { k.askAgain() }).stream = w.e.stream(streamOf(ofTrimmer, i, w.started[i]-1, 1))
	}
	return k
}

// resultRefused models the pool's reaction to a broker that refuses a result: the gate closes (R10).
func (k *worker) resultRefused(error) {
	if !k.w.drops(R10) {
		k.unstored++
	}
}

// stored models the pool's reaction to the end of an order's wait. The gate opens when no
// order waits any more. One whose claim is over was given up, without another word of the broker.
func (k *worker) stored() {
	if k.w.drops(R10) {
		return
	}
	if p := k.e.running; p != nil && p.delivery != nil && !p.delivery.Lease().Valid() { // nil: the process was killed
		_ = store{k.w, k.host}.heard(p.delivery.OrderNo(), nil)
	}
	if k.unstored--; k.w.drops(Opened) {
		k.unstored = 0
	}
}

// pullWait equals pullWait of internal/cli/service.
const pullWait = time.Second

// intake models Pool.intake and Pool.pull: it takes a slot, then a message.
func (k *worker) intake() {
	e := k.e
	ctx := context.Background()
	for !k.stopping {
		if k.unstored > 0 || k.free == 0 || !k.up {
			e.nap(e.between(10*time.Millisecond, 100*time.Millisecond))
			continue
		}
		k.w.awaitWork(k)
		p, err := k.q.Worker.BeginPull(ctx)
		if err != nil {
			e.nap(100 * time.Millisecond)
			continue
		}
		k.pull(ctx, p)
	}
}

// pull models Queue.Pull.
func (k *worker) pull(ctx context.Context, p settle.PullStart) {
	e, b := k.e, k.w.broker
	n := k.free
	k.free -= n
	wait := min(pullWait, (k.w.cfg.AckWait-k.w.cfg.AckWait/10)/3)
	arrived := make([][]settle.Arrival, 0, 2)
	e.running.step = StepPull
	me, link, over := e.running, k.link, false
	me.wait = e.newWait()
	serial := me.wait
	ask := &pull{h: k.host, n: n, link: link, until: e.at + wait, take: func(ms []settle.Arrival) {
		if k.link == link && !over && !k.cut {
			arrived = append(arrived, ms)
			e.wake(me, serial)
		}
	}}
	if k.up {
		k.send(func() { b.ask(ask) })
	}
	end := e.at + wait + 100*time.Millisecond
	e.after(end-e.at, func() { e.wake(me, serial) })
	me.suspend()
	for {
		for len(arrived) > 0 {
			group := arrived[0]
			arrived = arrived[1:]
			n -= len(group)
			k.boundary(me)
			me.checking = true
			ds := k.q.Worker.Arrived(ctx, p, group)
			me.checking = false
			k.poke() // a second delivery of the same message ends the claim of the first
			for i, d := range ds {
				k.begin(&delivery{Delivery: d, arrival: group[i], k: k})
			}
		}
		if n <= 0 || e.at >= end || k.link != link {
			break
		}
		me.wait = e.newWait()
		serial = me.wait
		now := serial
		e.after(end-e.at, func() { e.wake(me, now) })
		me.suspend()
	}
	over, ask.over = true, true
	k.free += max(n, 0)
}

// delivery is one message that the worker has in hand. It implements settle.Observer.
type delivery struct {
	*settle.Delivery
	arrival settle.Arrival
	k       *worker
	decided order.Settlement // what the handler settles the delivery as
	again   func()           // posts the order once more (Repost); nil = it was not posted
}

// begin starts a proc for a delivery.
func (k *worker) begin(d *delivery) {
	k.inHand++
	k.keepClaims()
	k.e.spawn(k.host, func(p *proc) {
		p.delivery = d
		if k.e.trace != nil {
			k.say(d, "check", "%s: %s (delivery %d, last word %s)", d.Intent.ID, d.Work, d.Delivered, wordOf(d.Last.Record))
		}
		if !k.w.mutateDelivery(d) {
			k.handler.Handle(k.work, k.settle, d.Delivery, d)
		}
		k.inHand--
		k.free++
	})
}

// keepClaims models the lease keeper's ticker. It runs while there are claims.
func (k *worker) keepClaims() {
	if k.ticking {
		return
	}
	k.ticking = true
	var tick func()
	tick = func() {
		switch {
		case k.dead:
		case k.inHand == 0:
			k.ticking = false
		case k.frozen > k.e.at:
			k.e.after(k.frozen-k.e.at, tick)
		default:
			k.q.Claims.Extend()
			k.poke() // an expired claim ends the context of its attempt
			k.e.after(k.q.Claims.Every(), tick)
		}
	}
	k.e.after(k.q.Claims.Every(), tick)
}

func (k *worker) say(d *delivery, step, format string, args ...any) {
	if k.e.trace == nil {
		return
	}
	k.e.trace.say(k.e, k.name, step, d.OrderNo(), format, args...)
}

// Submitting implements settle.Observer.
func (d *delivery) Submitting(ctx context.Context) context.Context { return ctx }

// Settling implements settle.Observer.
func (d *delivery) Settling(s order.Settlement) func(*order.Record, error) {
	d.decided = s
	d.k.say(d, "decide", "%s %s", s.Action, s.Outcome)
	return func(_ *order.Record, err error) {
		if err != nil {
			d.k.say(d, "left", "to its next delivery: %v", err)
		}
	}
}

// Settled implements settle.Observer.
func (d *delivery) Settled(*order.Record) {}

// Recognised implements settle.Observer.
func (d *delivery) Recognised(*order.Record) {}

// Returned implements settle.Observer.
func (d *delivery) Returned(*order.Report, order.Settlement, *order.Record) {}

// Panicked implements settle.Observer.
func (d *delivery) Panicked(any) { d.k.say(d, "panic", "") }

// lock is a settle.Lock among the procs of one process.
type lock struct {
	e       *engine
	readers int
	writer  bool
}

// Lock implements settle.Lock.
func (l *lock) Lock() {
	for l.writer || l.readers > 0 {
		l.e.nap(10 * time.Millisecond)
	}
	l.writer = true
}

// Unlock implements settle.Lock.
func (l *lock) Unlock() { l.writer = false }

// RLock implements settle.Lock.
func (l *lock) RLock() {
	for l.writer {
		l.e.nap(10 * time.Millisecond)
	}
	l.readers++
}

// RUnlock implements settle.Lock.
func (l *lock) RUnlock() { l.readers-- }

// drain models Pool.drain and ends the process.
func (k *worker) drain(patience time.Duration) {
	if k.dead || k.stopping {
		return
	}
	k.w.faults++
	k.e.reached.strike(FaultDrain, k.step())
	k.e.trace.say(k.e, k.name, "draining", "", "within %s", patience)
	k.stopping = true
	idle := func() bool { return k.free == k.w.cfg.Slots || k.dead }
	k.await(patience, idle, func() {
		k.endWork(errDraining)
		k.poke()
		k.await(5*time.Second, idle, func() {
			k.endSettle(errDraining)
			k.poke()
			k.e.after(10*time.Millisecond, func() { k.crash("stopped") })
		})
	})
}

// await crashes the process once it is idle. If it is not idle within patience, await
// calls then.
func (k *worker) await(patience time.Duration, idle func() bool, then func()) {
	switch {
	case idle():
		k.crash("stopped")
	case patience <= 0:
		then()
	default:
		const look = 100 * time.Millisecond
		k.e.after(look, func() { k.await(patience-look, idle, then) })
	}
}
