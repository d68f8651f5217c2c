package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"orderpost/internal/settle"
)

// waitingRoom models the stream in which intents wait for their turn.
type waitingRoom struct {
	seq     uint64
	intents map[uint64]*settle.Message
	dedupe  map[string]time.Duration
	// hand holds until when a delivered intent is not delivered again. A broker that
	// was killed has forgotten it.
	hand map[uint64]time.Duration
	// held holds by order_no which cancellations keep the feeders from it.
	held map[string]map[streamID]bool
}

// feedAckWait is the ack wait of a feeder's consumer.
const feedAckWait = 10 * time.Second

// waits reports whether a schedule has a waiting room, as one in three has. Like
// replicated, it does not use the schedule's generator. The mutations R13 and Moved
// need a waiting room. The other mutations have none, where they are known to be
// noticed.
func waits(s *Schedule, m Mutation) bool {
	switch {
	case s.Old:
		return false
	case m == None:
		return rand.New(rand.NewPCG(s.Seed, 0x77616974)).Float64() < 0.35
	default:
		return m == R13 || m == Moved
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

// feeder models the feeder of internal/waiting. It ends what it does when its term
// is over, but does not ask whether it is the only one.
type feeder struct{ *host }

func (w *world) startFeeder(i int) *feeder {
	f := &feeder{w.newHost(fmt.Sprint("f", i), streamOf(ofFeeder, i, w.fed[i], 0))}
	w.fed[i]++
	f.faulty = !w.quiet
	f.open()
	f.q.Mutate(w.mutation.ofTheProtocol())
	f.restart = func() {
		w.e.after(w.e.between(10*time.Millisecond, 20*time.Second), func() { w.feeders[i] = w.startFeeder(i) })
	}
	w.e.spawn(f.host, func(*proc) { f.feed() })
	return f
}

// feed moves what waits, a few intents at a time.
func (f *feeder) feed() {
	for {
		f.e.nap(f.e.between(50*time.Millisecond, time.Second))
		page, err := f.take(1+f.e.rng.IntN(3), f.e.chance(0.7))
		if err != nil || len(page) == 0 {
			continue
		}
		ctx, cancel := runtime{f.e, f.host}.WithDeadline(context.Background(), f.now().Add(feederTerm))
		ends, err := f.q.Move(ctx, page)
		cancel()
		for i, m := range page {
			f.e.trace.say(f.e, f.name, "move", orderNoOf(m.Subject), "%d: %s (%v)", m.Seq, ends[i], err)
		}
	}
}

// take reads some of the first waiting intents, or pulls them from a consumer.
func (f *feeder) take(n int, pull bool) (page []settle.Arrival, err error) {
	err = f.request(func() {
		room := f.w.broker.waiting
		for _, seq := range sortedKeys(room.intents) {
			if len(room.held[orderNoOf(room.intents[seq].Subject)]) > 0 {
				continue
			}
			m := settle.Arrival{Message: room.intents[seq], Delivered: 1}
			if pull {
				if room.hand[seq] > f.e.at {
					continue
				}
				room.hand[seq], m.Answer = f.e.at+feedAckWait, roomAnswer{answer{f.w, f.host, seq, 0}}
			}
			if page = append(page, m); len(page) == n {
				return
			}
		}
	})
	return page, err
}

// roomAnswer answers a delivery of the waiting room. Nobody waits for the broker to
// hear it.
type roomAnswer struct{ answer }

// Ack implements settle.Answer.
func (a roomAnswer) Ack() error {
	return a.send("ack", func(bool) {
		room := a.w.broker.waiting
		if m := room.intents[a.seq]; m != nil && room.hand[a.seq] > 0 {
			a.w.witness.left(m, a.h)
			delete(room.intents, a.seq)
		}
	})
}

// NakWithDelay implements settle.Answer.
func (a roomAnswer) NakWithDelay(d time.Duration) error {
	return a.send("nak", func(bool) {
		if room := a.w.broker.waiting; room.hand[a.seq] > 0 {
			room.hand[a.seq] = a.w.e.at + d
		}
	})
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
		waiting.Seq, waiting.Time = room.seq, b.w.e.now()
		room.intents[room.seq] = &waiting
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
	return s.h.request(func() {
		room := s.w.broker.waiting
		if m := room.intents[seq]; m != nil {
			s.w.witness.left(m, s.h)
			delete(room.intents, seq)
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

// withdraw withdraws what waits of an order. A feeder that read some of it before the
// hold has it in hand for its term at most, and a publish may be on its way.
func (w *world) withdraw(h *host, no string) {
	room, id, ctx := w.broker.waiting, h.stream.id&^0xff, context.Background() // the same for each run of the cancellation
	insist := func(effect func()) {
		for h.request(effect) != nil {
			w.e.nap(time.Second)
		}
	}
	insist(func() {
		if room.held[no] == nil {
			room.held[no] = make(map[streamID]bool)
		}
		room.held[no][id] = true
	})
	w.e.nap(feederTerm + settle.RequestTimeout)
	var page []*settle.Message
	insist(func() {
		page = nil
		for _, seq := range sortedKeys(room.intents) {
			if m := room.intents[seq]; orderNoOf(m.Subject) == no {
				page = append(page, m)
			}
		}
	})
	counts, err := h.q.Withdraw(ctx, anna.Name, page)
	w.e.trace.say(w.e, h.name, "withdraw", no, "withdrawn %d, blocked %d: %v", counts.Withdrawn, counts.Blocked, err)
	insist(func() { delete(room.held[no], id) })
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
