package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// worker is internal/worker's pool on one simulated process. What its methods
// stand for is named at each; what they call of queue and order is real.
type worker struct {
	*host
	free     int
	inHand   int
	stopping bool
	ticking  bool
	unstored int // orders that wait until results are not refused any more: the gate is closed (R10)

	// alone is Pool.alone: readers work on orders, a writer handles a suspect.
	readers int
	writer  bool

	work, settle context.Context
	endWork      context.CancelCauseFunc
	endSettle    context.CancelCauseFunc
}

var (
	errLeaseLost = errors.New("the claim on the order is lost")
	errDraining  = errors.New("the worker is stopping")
)

func (w *world) startWorker(i int) *worker {
	k := &worker{host: w.newHost(fmt.Sprint("w", i)), free: w.cfg.Slots}
	k.faulty = !w.quiet
	k.open()
	k.work, k.endWork = context.WithCancelCause(context.Background())
	k.settle, k.endSettle = context.WithCancelCause(context.Background())
	k.restart = func() {
		w.e.after(w.e.between(10*time.Millisecond, 5*time.Second), func() { w.workers[i] = w.startWorker(i) })
	}
	w.e.trace.say(w.e, k.name, "started", "", "")
	w.e.spawn(k.host, func(*proc) { k.intake() })
	return k
}

// pullWait is worker.pullWait.
const pullWait = time.Second

// intake is Pool.intake and Pool.pull: a slot first, then a message.
func (k *worker) intake() {
	e := k.e
	ctx := context.Background()
	for !k.stopping {
		if k.unstored > 0 || k.free == 0 || !k.up {
			e.nap(e.between(10*time.Millisecond, 100*time.Millisecond))
			continue
		}
		k.w.awaitWork(k)
		p, err := k.q.BeginPull(ctx)
		if err != nil {
			e.nap(100 * time.Millisecond)
			continue
		}
		k.pull(ctx, p)
	}
}

// pull is Queue.Pull, from the request to the end of its wait.
func (k *worker) pull(ctx context.Context, p queue.Pulling) {
	e, b := k.e, k.w.broker
	n := k.free
	k.free -= n
	wait := min(pullWait, (k.w.cfg.AckWait-k.w.cfg.AckWait/10)/3)
	arrived := make([][]queue.Arrival, 0, 2)
	me, link, over := e.running, k.link, false
	me.wait = e.newWait()
	serial := me.wait
	ask := &pull{h: k.host, n: n, link: link, until: e.at + wait, take: func(ms []queue.Arrival) {
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
			ds := k.q.Arrived(ctx, p, group)
			me.checking = false
			k.poke() // a second delivery of the same message ends the claim of the first
			for i, d := range ds {
				k.begin(&delivery{d, group[i]})
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

// delivery is one message in the worker's hands.
type delivery struct {
	*queue.Delivery
	arrival queue.Arrival
}

// begin gives a delivery to a proc of its own.
func (k *worker) begin(d *delivery) {
	k.inHand++
	k.keepClaims()
	k.e.spawn(k.host, func(p *proc) {
		k.handle(p, d)
		k.inHand--
		k.free++
	})
}

// keepClaims is the lease keeper's ticker, while there are claims.
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
			k.q.ExtendClaims()
			k.poke() // a claim that is over ended its attempt's context
			k.e.after(k.q.ExtendEvery(), tick)
		}
	}
	k.e.after(k.q.ExtendEvery(), tick)
}

// handle is Pool.handle.
func (k *worker) handle(p *proc, d *delivery) {
	defer d.Release()
	suspect := d.Work == queue.WorkSuspect
	for k.writer || suspect && k.readers > 0 {
		k.e.nap(10 * time.Millisecond)
	}
	if suspect {
		k.writer = true
		defer func() { k.writer = false }()
	} else {
		k.readers++
		defer func() { k.readers-- }()
	}
	if k.w.drops(R3) {
		d.History.Unsure = false
	}
	panicked := false
	func() {
		defer func() {
			if r := recover(); r != nil {
				if r != errToxic {
					panic(r)
				}
				panicked = true
			}
		}()
		k.do(p, d)
	}()
	if panicked { // Pool.survive
		k.say(d, "panic", "")
		if !suspect {
			_ = k.untilStored(d, func() error { return k.q.NoteSuspect(k.settle, d.Delivery) })
		}
	}
}

func (k *worker) say(d *delivery, step, format string, args ...any) {
	k.e.trace.say(k.e, k.name, step, d.OrderNo(), format, args...)
}

// poisonAfter is worker.poisonAfter.
const poisonAfter = 3

// do is Pool.do.
func (k *worker) do(p *proc, d *delivery) {
	last := d.Last.Record
	k.say(d, "work", "%s: %s (delivery %d, last word %s)", d.Intent.ID, d.Work, d.Delivered, wordOf(last))
	write := func(w func() error) { _ = k.untilStored(d, w) }
	switch d.Work {
	case queue.WorkSettled:
		if k.w.drops(R4) && last.NeedsLetter() && !d.StoredAt.After(last.EnqueuedAt) {
			write(d.arrival.Answer.Ack)
			return
		}
		write(func() error { return k.q.Complete(k.settle, d.Delivery) })
	case queue.WorkRepeat:
		write(func() error { _, err := k.q.Repeat(k.settle, d.Delivery); return err })
	case queue.WorkConflict, queue.WorkWithheld:
		write(func() error { _, err := k.q.Refuse(k.settle, d.Delivery); return err })
	case queue.WorkNotYet:
		write(func() error { return k.q.HandBack(k.settle, d.Delivery, last.NotBefore.Sub(k.e.now())) })
	case queue.WorkClaimed:
		until := last.LastAttemptAt.Add(k.w.cfg.RequestTimeout + time.Second)
		write(func() error { return k.q.HandBack(k.settle, d.Delivery, until.Sub(k.e.now())) })
	case queue.WorkInvalid:
		k.conclude(d, order.Report{End: order.EndInvalid, History: d.History}, false)
	case queue.WorkSuspect:
		k.suspect(p, d)
	case queue.WorkSubmit:
		k.visit(p, d)
	default:
		write(func() error { return k.q.GiveUp(k.settle, d.Delivery) })
	}
}

// suspect is Pool.suspect.
func (k *worker) suspect(p *proc, d *delivery) {
	count := d.History.Suspects
	if k.w.drops(R8) {
		count = d.Unexplained + 1 // every delivery that nothing explains counts, not those alone
	}
	if count >= poisonAfter {
		k.conclude(d, order.Report{End: order.EndPoison, Reason: "poison", History: d.History}, false)
		return
	}
	if k.untilStored(d, func() error { return k.q.NoteSuspect(k.settle, d.Delivery) }) != nil {
		return
	}
	if d.Invalid != nil {
		k.conclude(d, order.Report{End: order.EndInvalid, History: d.History}, false)
		return
	}
	k.visit(p, d)
}

// visit is Pool.visit.
func (k *worker) visit(p *proc, d *delivery) {
	if k.stopping {
		k.conclude(d, order.Report{End: order.EndHandBack, History: d.History}, false)
		return
	}
	if d.Work != queue.WorkSuspect && (d.Again || k.w.cfg.Policy == order.Resubmit && d.MustNoteBegin() && !k.w.drops(Begun)) {
		if k.untilStored(d, func() error { return k.q.NoteBegun(k.settle, d.Delivery) }) != nil {
			return
		}
	}
	ctx, cancel := k.work, func() {}
	if !k.w.drops(R7) {
		ctx, cancel = d.Lease().Bound(k.work, errLeaseLost)
	}
	defer cancel()
	if err := k.afterReconnect(ctx, d); err != nil {
		end := order.EndHandBack
		if errors.Is(context.Cause(ctx), errLeaseLost) {
			end = order.EndLeaseLost
		}
		k.conclude(d, order.Report{End: end, History: d.History}, false)
		return
	}
	v := &visit{worker: k, proc: p, d: d, ctx: ctx}
	report := v.submit()
	k.conclude(d, report, v.proven)
}

// afterReconnect is Pool.afterReconnect.
func (k *worker) afterReconnect(ctx context.Context, d *delivery) error {
	until := k.q.RestlessUntil(k.w.cfg.RequestTimeout)
	if d.Delivered == 1 && !d.Again || until.IsZero() {
		return nil
	}
	wait := until.Sub(k.e.now())
	if wait <= 0 || k.w.drops(Reconnect) {
		return nil
	}
	if k.e.sleep(ctx, wait) != nil {
		return context.Cause(ctx)
	}
	return nil
}

// conclude is Pool.conclude.
func (k *worker) conclude(d *delivery, r order.Report, firstProven bool) {
	s := order.Decide(r, order.Facts{Policy: k.w.cfg.Policy, FirstProven: firstProven && !r.History.Unsure, Allowed: d.Allowed})
	k.say(d, "settle", "%s after %s: %s %s", r.Verdict, r.End, s.Action, s.Outcome)
	_ = k.untilStored(d, func() error {
		_, err := k.q.Settle(k.settle, d.Delivery, r, s)
		return err
	})
}

// untilStored is Pool.untilStored.
func (k *worker) untilStored(d *delivery, write func() error) error {
	waits := false
	defer func() {
		if waits {
			k.unstored--
		}
	}()
	for {
		err := write()
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, queue.ErrStorage):
			k.say(d, "left", "to its next delivery: %v", err)
			return err
		}
		if !waits && !k.w.drops(R10) {
			waits = true
			k.unstored++
		}
		if k.e.sleep(k.settle, time.Second) != nil {
			return err
		}
	}
}

// drain is Pool.drain, and the end of the process.
func (k *worker) drain(patience time.Duration) {
	if k.dead || k.stopping {
		return
	}
	k.w.faults++
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

// await ends the process as soon as it is idle, or does what comes then.
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
