package simulation

import (
	"context"
	"slices"
	"time"

	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// trims reports whether what is acknowledged stays in the log until a worker trims it
// (R14). It leaves at once in schedules and with mutations that came before that.
func (w *world) trims() bool {
	return !w.e.schedule.Old && (w.mutation.inAll() || w.mutation == Floor || w.mutation == Certain || w.mutation == Trust)
}

// trim models the pool's trimming, without its lease: every worker trims.
func (k *worker) trim() {
	b, ctx := k.w.broker, context.Background()
	for {
		if len(b.acked) == 0 {
			p := k.e.running
			p.wait = k.e.newWait()
			b.trimmers = append(b.trimmers, idler{p, p.wait})
			p.suspend()
		}
		k.e.nap(k.e.between(50*time.Millisecond, 3*time.Second))
		if len(b.acked) == 0 {
			continue
		}
		err := k.q.Trimmer.Trim(ctx)
		if err == nil {
			err = k.trimAhead(ctx)
		}
		if err == nil {
			err = k.q.Trimmer.TrimSingly(ctx)
		}
		if err != nil {
			k.e.trace.say(k.e, k.name, "trim", "", "%v", err)
		}
	}
}

// sweep models the pool's sweeps of letters that no record names, without its lease.
func (k *worker) sweep() {
	ctx, wait := context.Background(), k.w.protocol.SweepAfter
	if k.w.drops(Sweep) {
		wait = time.Second
	}
	for {
		k.e.nap(k.e.between(wait/2, wait))
		removed, err := k.q.Sweeper.Sweep(ctx)
		if err == nil && k.w.drops(Sweep) {
			removed, err = k.q.Sweeper.Sweep(ctx)
		}
		if removed > 0 || err != nil {
			k.e.trace.say(k.e, k.name, "sweep", "", "removed %d: %v", removed, err)
		}
	}
}

// askAgain models the pool's looks for overdue deliveries, without its lease. Without a wrong clock of
// the broker there are none.
func (k *worker) askAgain() {
	for {
		k.e.nap(k.w.cfg.DelayMax)
		if asked, err := k.q.Overdue.Look(context.Background()); asked > 0 || err != nil {
			k.e.trace.say(k.e, k.name, "overdue", "", "asked for %d: %v", asked, err)
		}
	}
}

// wakeTrimmers wakes the workers that have nothing to trim. It draws nothing.
func (b *broker) wakeTrimmers() {
	for _, i := range b.trimmers {
		b.w.e.after(settle.TrimEvery, func() { b.w.e.wake(i.p, i.n) })
	}
	b.trimmers = b.trimmers[:0]
}

// loseAcks undoes acknowledgements that the killed broker had not written to its disk. It
// draws nothing from the streams.
func (b *broker) loseAcks(m memory) {
	for _, seq := range sortedKeys(b.acked) {
		delivered := seq < b.next
		if m == remembersAll || m == remembersSome && (b.passed[seq] || delivered && mix(b.w.e.schedule.Seed^mix(seq)^uint64(b.life))&1 == 0) {
			continue
		}
		delete(b.acked, seq)
		delete(b.passed, seq)
		b.w.witness.stored(b.intents[seq])
		if delivered {
			b.w.claims++
			p := &handed{count: 1, claim: b.w.claims, replicated: b.wall()}
			b.pending[seq] = p
			b.w.witness.owned(b.intents[seq], p.claim, p.count)
			b.deadline(seq, p)
		}
	}
}

// passesOver lets a broker that was killed count a delivery that it forgot as acknowledged, and
// reports whether it does. It does so only if the result is certain: else a person would have to repair it.
// It draws nothing from the streams.
func (b *broker) passesOver(seq uint64) bool {
	in := b.intents[seq]
	stored := b.results[settle.FiledToken(in.orderNo, seq, in.msg.Time)]
	if !b.w.trims() || stored == nil || !in.msg.SettledBy(stored.rec) || stored.rec.NeedsLetter() || stored.rec.ConflictOf(in.id) != nil || mix(b.w.e.schedule.Seed^mix(seq)^uint64(b.life))&2 == 0 {
		return false
	}
	b.w.e.trace.say(b.w.e, "broker", "passed over", in.orderNo, "%s", in.id)
	b.acked[seq], b.passed[seq] = true, true
	b.wakeTrimmers()
	return true
}

// floor returns the sequence up to which nothing is left to be acknowledged.
func (b *broker) floor() uint64 {
	if b.w.e.at < b.misled {
		return b.seq
	}
	floor := b.next - 1
	for seq := range b.intents {
		if !b.acked[seq] {
			floor = min(floor, seq-1)
		}
	}
	return floor
}

// moveFloor lets an administrator edit the workers' consumer, and set it back as the worker advises:
// meanwhile its floor passes over intents that nobody was given.
func (b *broker) moveFloor(d time.Duration) {
	b.w.faults++
	b.w.e.reached.strike(FaultFloor, b.w.busiest())
	b.w.e.trace.say(b.w.e, "broker", "consumer edited", "", "for %s", d)
	b.misled = b.w.e.at + d
}

// noneAgain reports whether the broker says that no intent waits to be delivered again.
func (b *broker) noneAgain() bool {
	return len(b.pending) == 0 || slices.ContainsFunc(b.pulls, func(p *pull) bool { return !b.stale(p) })
}

func (s store) Progress(context.Context) (p settle.Progress, err error) {
	err = s.askConsumer(func() {
		b := s.w.broker
		p = settle.Progress{Floor: b.floor(), Delivered: max(b.next-1, b.floor()), NoneHeld: len(b.pending) == 0, NoneAgain: b.noneAgain()}
	})
	return p, err
}

func (s store) IntentsFrom(_ context.Context, seq uint64, most int) (page []*settle.Message, err error) {
	b := s.w.broker
	s.at(StepLookup)
	err = s.h.ask(func() reaction {
		r := b.reads(inIntents, StepLookup)
		if r == answersNone {
			return isSilent // a server that stops does not complete a batch
		}
		for _, at := range sortedKeys(b.intents) {
			if r == answers && at >= seq && len(page) < most {
				page = append(page, b.intents[at].msg)
			}
		}
		return r
	})
	return page, err
}

func (s store) PurgeIntents(_ context.Context, upTo uint64) error {
	if s.w.drops(Floor) {
		upTo++
	}
	return s.write(inIntents, StepTrim, func() {
		b := s.w.broker
		for _, seq := range sortedKeys(b.intents) {
			if seq <= upTo {
				b.w.e.trace.say(b.w.e, "broker", "trimmed", b.intents[seq].orderNo, "%s", b.intents[seq].id)
				b.remove(seq)
			}
		}
		b.forgetAgain()
	})
}

// forgetAgain makes what waits to be delivered again wait for the end of its ack wait, as a
// purge does.
func (b *broker) forgetAgain() {
	for _, seq := range b.again {
		if p := b.pending[seq]; p != nil {
			b.expire(seq, p, b.w.e.at, p.since+b.w.cfg.AckWait, oracle.ByTime)
		}
	}
	b.again = nil
}
