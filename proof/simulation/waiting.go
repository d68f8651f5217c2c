package simulation

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"orderpost/internal/settle"
)

// waitingRoom models the stream in which intents wait for their turn.
type waitingRoom struct {
	seq     uint64
	intents map[uint64]*settle.Message
	at      map[uint64]time.Duration // when each was stored
	dedupe  map[string]time.Duration
}

// imports is how many imports wait. A subject of the waiting room does not name the order.
const imports = 2

// waitingSubject returns the subject under which the intents of an order_no wait.
func waitingSubject(orderNo string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(orderNo))
	return fmt.Sprint("orders.waiting.bulk.", h.Sum32()%imports)
}

// waits reports whether a schedule has a waiting room, as one in three has. Like
// replicated, it does not use the schedule's generator. The mutations R13, Moved
// and Purge need a waiting room. The other mutations have none, where they are known to be
// noticed.
func waits(s *Schedule, m Mutation) bool {
	switch {
	case s.Old:
		return false
	case m.inAll():
		return rand.New(rand.NewPCG(s.Seed, 0x77616974)).Float64() < 0.35
	default:
		return m == R13 || m == Moved || m == Purge
	}
}

// feeders is how many feeders run at once. The fleet runs one. Nothing may depend
// on that: a frozen one wakes beside its successor.
const feeders = 2

// openWaitingRoom makes it a schedule with a waiting room.
func (p *plan) openWaitingRoom(e *engine) {
	p.Feeders = feeders
	count := func(share float64) int {
		if !e.chance(share) {
			return 0
		}
		return 1 + e.rng.IntN(3)
	}
	p.FeederCrashes, p.FeederFreezes, p.FeederStepCrashes, p.FeederStepFreezes = count(0.4), count(0.4), count(0.7), count(0.4)
	p.FeederCuts = count(0.3)
}

// feederTerm is how long a feeder may act without having heard that it is still the
// one that feeds.
const feederTerm = 6 * time.Second

// feeder models the feeder of internal/worker/feed. It ends what it does when its term
// is over, but does not ask whether it is the only one.
type feeder struct{ *host }

func (w *world) startFeeder(i int) *feeder {
	f := &feeder{w.newHost(fmt.Sprint("f", i), streamOf(ofFeeder, i, w.fed[i], 0))}
	w.fed[i]++
	f.faulty = !w.quiet
	f.open()
	f.restart = func() {
		w.e.after(w.e.between(10*time.Millisecond, 20*time.Second), func() { w.feeders[i] = w.startFeeder(i) })
	}
	w.e.spawn(f.host, func(*proc) { f.feed() })
	return f
}

// feed moves what waits, a few intents at a time.
func (f *feeder) feed() {
	for blocked := 0; ; {
		f.e.nap(f.e.between(50*time.Millisecond, time.Second) << min(blocked, 6))
		g, err := f.take(1+f.e.rng.IntN(3), f.e.chance(0.7))
		if err != nil || len(g.Messages) == 0 {
			continue
		}
		if f.beforeMove(context.Background(), g) != nil {
			continue
		}
		ctx, cancel := runtime{f.e, f.host}.WithDeadline(context.Background(), f.now().Add(feederTerm))
		f.moving = true
		ends, err := f.q.Mover.Move(ctx, g)
		f.moving = false
		cancel()
		f.afterMove(context.Background(), g, ends)
		blocked++
		for i, m := range g.Messages {
			if ends[i] != settle.MoveBlocked {
				blocked = 0
			}
			f.e.trace.say(f.e, f.name, "move", settle.WaitingOrderNo(m), "%d: %s (%v)", m.Seq, ends[i], err)
		}
	}
}

// take reads some of the first intents of one import, whole, or some that wait anywhere.
func (f *feeder) take(n int, whole bool) (g settle.WaitingGroup, err error) {
	err = f.request(func() {
		room, skipped := f.w.broker.waiting, make(map[string]bool)
		known := f.w.broker.cancelled // a feeder knows the marks as of what it reads
		f.notice(func() { f.q.Ledger.SetCancellations(known) })
		g.Whole, g.Birth = whole, birth
		for _, seq := range sortedKeys(room.intents) {
			m := room.intents[seq]
			held := f.w.broker.fresh(m)
			switch {
			case whole && len(g.Messages) > 0 && g.Messages[0].Subject != m.Subject:
				continue
			case held && whole && len(g.Messages) > 0:
				return
			case held:
				skipped[m.Subject] = whole
				continue
			case skipped[m.Subject]:
				continue
			}
			if g.Messages = append(g.Messages, m); len(g.Messages) == n {
				return
			}
		}
	})
	return g, err
}

// leave removes the intents that are named by their sequences.
func (s store) leave(seqs ...uint64) {
	room := s.w.broker.waiting
	for _, seq := range seqs {
		if m := room.intents[seq]; m != nil {
			s.w.witness.left(m, s.h)
			delete(room.intents, seq)
			delete(room.at, seq)
		}
	}
}

// wait puts an intent into the waiting room.
func (s store) wait(m *settle.Message) error {
	return s.h.request(func() {
		b, room := s.w.broker, s.w.broker.waiting
		id := given(m)
		if at, dup := room.dedupe[id]; id != "" && dup && b.w.e.at-at < dedupeWindow {
			return
		}
		room.seq++
		waiting := *m
		waiting.Seq, waiting.Time, waiting.Subject = room.seq, b.now(), waitingSubject(orderNoOf(m.Subject))
		room.intents[room.seq], room.at[room.seq] = &waiting, b.w.e.at
		if id != "" {
			room.dedupe[id] = b.w.e.at
		}
		b.w.witness.waited(&waiting)
		b.w.e.trace.say(b.w.e, "broker", "waits", orderNoOf(m.Subject), "%s at %d", waitingID(&waiting), room.seq)
	})
}

func waitingID(m *settle.Message) string { return intentID(m, given(m)) }

func (s store) WaitingAt(_ context.Context, seq uint64) (m *settle.Message, err error) {
	err = s.h.request(func() { m = s.w.broker.waiting.intents[seq] })
	return m, err
}

func (s store) DeleteWaiting(_ context.Context, seq uint64) error {
	return s.h.request(func() { s.leave(seq) })
}

func (s store) PurgeWaiting(_ context.Context, subject string, upTo uint64) error {
	return s.h.request(func() {
		room := s.w.broker.waiting
		for _, seq := range sortedKeys(room.intents) {
			if seq <= upTo && room.intents[seq].Subject == subject {
				s.leave(seq)
			}
		}
	})
}

// PublishIntents publishes in one request, as an atomic batch does, or in one for
// each intent.
func (s store) PublishIntents(ctx context.Context, ms []*settle.Message, may func() error) []settle.Published {
	out := make([]settle.Published, len(ms))
	if s.w.e.chance(0.5) {
		for i, m := range ms {
			if out[i].Err = may(); out[i].Err == nil {
				out[i].Status, out[i].Seq, out[i].Err = s.PublishIntent(ctx, m)
			}
		}
		return out
	}
	err := may()
	if err != nil {
		for i := range out {
			out[i].Err = err
		}
		return out
	}
	began := s.w.e.at
	err = s.h.request(func() {
		s.w.witness.paused = s.h.frozen > began
		defer func() { s.w.witness.paused = false }()
		for i, m := range ms {
			out[i].Status, out[i].Seq = s.w.broker.publish(m, given(m))
		}
	})
	for i := range out {
		out[i].Err = err
	}
	return out
}

// troubleFeeders schedules what goes wrong with feeders.
func (w *world) troubleFeeders(at func(n int, what func())) {
	c, e := &w.cfg, w.e
	victim := func() *feeder { return w.feeders[e.rng.IntN(len(w.feeders))] }
	long := func() time.Duration { return e.between(0, 3*dedupeWindow/2) }
	at(c.FeederCrashes, func() { victim().crash("killed") })
	at(c.FeederFreezes, func() { victim().freeze(long()) })
	at(c.FeederCuts, func() { victim().disconnect(e.between(100*time.Millisecond, c.AckWait)) })
	at(c.FeederStepCrashes, func() { victim().crashIn = 1 + e.rng.IntN(12) })
	at(c.FeederStepFreezes, func() {
		f := victim()
		f.freezeIn, f.freezeFor = 1+e.rng.IntN(12), long()
	})
}
