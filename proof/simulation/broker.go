package simulation

import (
	"slices"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// broker models JetStream as far as the protocol uses it: a log of intents with one message
// per subject and discard new, results with one message per subject, dead letters,
// the marks, one consumer. Stored data survives a crash. Other state may not.
type broker struct {
	w    *world
	up   bool
	life int  // number of restarts
	full bool // the broker refuses results

	seq     uint64 // of the intents
	intents map[uint64]*intent
	bySubj  map[string]*intent
	dedupe  map[string]known
	results map[string]*resultEntry
	letters map[uint64]*settle.Letter
	marks   map[string]markEntry
	resSeq  uint64
	deadSeq uint64
	markSeq uint64

	followers   *followers // nil on one replica
	leaders     [allStreams]leader
	changeAfter int                              // so many more writes to the results, then their leader stops
	server      int                              // that leads the streams
	ahead       [followerCount + 1]time.Duration // by how much the servers' clocks are
	consumerOn  int                              // the server that leads the workers' consumer
	waiting     *waitingRoom

	// the consumer
	consumer leader          // of the workers' consumer
	term     int             // of that leader
	next     uint64          // the next sequence to deliver for the first time
	acked    map[uint64]bool // stored intents that were acknowledged
	misled   time.Duration   // until then the consumer's floor is wrong
	passed   map[uint64]bool // those of them that a broker only counts so, because it forgot their delivery
	trimmers []idler         // wait until an intent is acknowledged
	pending  map[uint64]*handed
	again    []uint64 // to be redelivered, in this order
	pulls    []*pull

	cancelled settle.Cancellations
}

type intent struct {
	msg     *settle.Message
	at      time.Duration // when it was stored
	id      string
	orderNo string
}

type known struct {
	seq uint64
	at  time.Duration
}

type resultEntry struct {
	rec *order.Record
	seq uint64
}

type markEntry struct {
	mark settle.HighWaterMark
	seq  uint64
}

// handed is the consumer's state of a delivered message.
type handed struct {
	count  uint64
	claim  int // the delivery that holds the message; 0 = it waits for redelivery
	serial int // number of its deadline
	// since is when the ack wait began: at the delivery, at a request for more time, or
	// when the former one ended. It is a time of the wall clock of the consumer's leader, as the others are.
	since time.Duration
	// due is when the ack wait, or a delay, is over; none while it is.
	due time.Duration
	why string // what is said of its end
	// replicated is when the message was delivered or its claim extended, as far as the
	// next leader of the consumer knows.
	replicated time.Duration
}

// pull is a worker's standing request for messages.
type pull struct {
	h     *host
	n     int
	until time.Duration
	link  int
	take  func(ms []settle.Arrival) // at the worker
	over  bool
}

// dedupeWindow is the stream's duplicate window.
const dedupeWindow = 2 * time.Minute

func newBroker(w *world) *broker {
	return &broker{w: w, up: true, intents: make(map[uint64]*intent), bySubj: make(map[string]*intent),
		dedupe: make(map[string]known), results: make(map[string]*resultEntry), letters: make(map[uint64]*settle.Letter),
		marks: make(map[string]markEntry), pending: make(map[uint64]*handed), acked: make(map[uint64]bool), passed: make(map[uint64]bool), next: 1,
		waiting: &waitingRoom{intents: make(map[uint64]*settle.Message), at: make(map[uint64]time.Duration), dedupe: make(map[string]time.Duration)}}
}

// fill makes the broker refuse results from now on.
func (b *broker) fill() {
	if !b.full {
		b.full = true
		b.w.witness.tell(oracle.Event{Kind: oracle.Full})
	}
}

// makeRoom makes the broker take results again.
func (b *broker) makeRoom() {
	b.full = false
	b.w.witness.tell(oracle.Event{Kind: oracle.Room})
}

// publish stores an intent.
func (b *broker) publish(m *settle.Message, id string) (settle.PublishStatus, uint64) {
	if k, dup := b.dedupe[id]; id != "" && dup && b.w.e.at-k.at < dedupeWindow {
		return settle.AlreadyKnown, k.seq
	}
	if b.bySubj[m.Subject] != nil {
		return settle.AlreadyPending, 0
	}
	b.seq++
	stored := *m
	stored.Seq, stored.Time = b.seq, b.now()
	in := &intent{msg: &stored, at: b.w.e.at, id: intentID(&stored, id), orderNo: orderNoOf(m.Subject)}
	b.intents[b.seq], b.bySubj[m.Subject] = in, in
	if id != "" {
		b.dedupe[id] = known{b.seq, b.w.e.at}
	}
	b.w.witness.stored(in)
	if t := b.w.e.trace; t != nil {
		t.say(b.w.e, "broker", "stored", in.orderNo, "%s", in.id)
	}
	b.serve()
	return settle.Stored, b.seq
}

// remove removes an intent from the stream.
func (b *broker) remove(seq uint64) {
	if in := b.intents[seq]; in != nil {
		if b.passed[seq] || !b.acked[seq] {
			b.w.witness.removed(in, 0)
		}
		delete(b.intents, seq)
		delete(b.acked, seq)
		delete(b.passed, seq)
		delete(b.bySubj, in.msg.Subject)
	}
	b.forget(seq)
}

// forget takes a message out of what the consumer has to deliver.
func (b *broker) forget(seq uint64) {
	delete(b.pending, seq)
	b.again = slices.DeleteFunc(b.again, func(s uint64) bool { return s == seq })
}

// open returns a stored intent that nobody acknowledged; nil = there is none.
func (b *broker) open(seq uint64) *intent {
	if b.acked[seq] {
		return nil
	}
	return b.intents[seq]
}

// unsettled is how many there are.
func (b *broker) unsettled() int { return len(b.intents) - len(b.acked) }

// serve delivers messages to the waiting pulls.
func (b *broker) serve() {
	if !b.leadsConsumer() {
		return
	}
	if len(b.w.idle) > 0 && b.up && b.ready() {
		b.w.wakeIdle()
	}
	for b.up && len(b.pulls) > 0 && b.ready() {
		p := b.pulls[0]
		if b.stale(p) {
			b.pulls = b.pulls[1:]
			continue
		}
		n := 1
		if p.n > 1 && b.w.e.chance(0.7) {
			n = p.n
		}
		var group []settle.Arrival
		for ; n > 0 && b.ready(); n-- {
			group = append(group, b.deliver(p.h))
		}
		if p.n -= len(group); p.n == 0 {
			b.pulls = b.pulls[1:]
		}
		b.w.e.after(b.w.latency(), func() { p.take(group) })
	}
}

// stale reports whether nobody waits for a pull any more.
func (b *broker) stale(p *pull) bool { return p.over || p.until < b.w.e.at || p.h.link != p.link }

func (b *broker) ready() bool {
	for len(b.again) > 0 && b.open(b.again[0]) == nil {
		b.again = b.again[1:]
	}
	for b.next <= b.seq && b.open(b.next) == nil {
		b.next++
	}
	return len(b.again) > 0 || b.next <= b.seq && len(b.pending) < b.w.cfg.MaxAckPending
}

// deliver hands the next message to h.
func (b *broker) deliver(h *host) settle.Arrival {
	var seq uint64
	if len(b.again) > 0 {
		seq, b.again = b.again[0], b.again[1:]
	} else {
		seq = b.next
		b.next++
	}
	p := b.pending[seq]
	if p == nil {
		p = &handed{}
		b.pending[seq] = p
	}
	in := b.intents[seq]
	p.replicated = in.msg.Time.Sub(epoch) // consumer.go
	p.count++
	b.w.claims++
	p.claim = b.w.claims
	b.w.witness.delivered(in, p.claim, p.count, h)
	if t := b.w.e.trace; t != nil {
		t.say(b.w.e, "broker", "pull", in.orderNo, "%s to %s, delivery %d", in.id, h.name, p.count)
	}
	b.deadline(seq, p)
	return settle.Arrival{Message: in.msg, Answer: answer{b.w, h, seq, p.claim}, Reply: replyOf(seq, p.claim), Delivered: p.count}
}

// deadline restarts the ack wait of a message.
func (b *broker) deadline(seq uint64, p *handed) {
	p.since = b.wall()
	b.expire(seq, p, 0, p.since+b.w.cfg.AckWait, oracle.ByTime)
}

// nak returns a message in the name of claim by. paused says that the sender was
// frozen after its last check. A former owner returns a message that now belongs to
// another worker.
func (b *broker) nak(seq uint64, delay time.Duration, by int, paused bool, sent time.Duration) {
	p := b.pending[seq]
	if p == nil || b.open(seq) == nil || p.claim == 0 {
		return
	}
	if !b.leadsConsumer() && (delay == 0 || !b.stopping(0.5)) { // only a delay is replicated
		b.w.e.trace.say(b.w.e, "broker", "nak lost", b.intents[seq].orderNo, "nobody leads the consumer")
		return
	}
	b.w.witness.handedBack(p.claim, by, paused, sent)
	p.claim = 0
	if delay > 0 {
		p.replicated = b.wall() - b.w.cfg.AckWait + delay
		b.expire(seq, p, 0, b.wall()+delay, oracle.ByTime)
		return
	}
	p.serial++
	p.due = none
	serial, life := p.serial, b.life
	b.w.e.after(0, func() {
		if b.life == life && b.pending[seq] == p && p.serial == serial && p.claim == 0 && !slices.Contains(b.again, seq) {
			b.again = append(b.again, seq)
			b.serve()
		}
	})
}

// extend extends the claim on a message, whoever asks for it, and reports whether the
// request is answered. A leader that stops answers and stores nothing.
func (b *broker) extend(seq uint64) (answered bool) {
	if !b.leadsConsumer() {
		return b.stopping(0.7)
	}
	if p := b.pending[seq]; p != nil && p.due != none {
		p.replicated = b.wall()
		b.deadline(seq, p)
	}
	return true
}

func (b *broker) ask(p *pull) {
	if !b.leadsConsumer() {
		return
	}
	b.pulls = append(b.pulls, p)
	b.serve()
}

func (b *broker) dropPulls(h *host) {
	b.pulls = slices.DeleteFunc(b.pulls, func(p *pull) bool { return p.h == h })
}

// memory says how much a restarted broker remembers of its deliveries.
type memory int

const (
	remembersAll memory = iota
	remembersSome
	remembersNothing
)

// kill kills the broker and all connections. Stored data is synced and stays.
func (b *broker) kill(down time.Duration, m memory) {
	if !b.up {
		return
	}
	b.up = false
	b.life++
	b.w.faults++
	b.w.e.reached.strike(FaultBrokerKilled+Fault(min(m, 1)), b.w.busiest())
	b.w.witness.tell(oracle.Event{Kind: oracle.BrokerKilled})
	b.w.e.trace.say(b.w.e, "broker", "killed", "", "comes back in %s and %s", down, [...]string{"knows its deliveries", "knows some of its deliveries", "knows none of its deliveries"}[m])
	for _, h := range b.w.hosts {
		if h.cut {
			continue // the process notices later
		}
		h.disconnect(down + b.w.e.between(0, time.Second))
	}
	b.pulls = nil
	for _, p := range b.pending {
		if p.claim != 0 {
			b.w.witness.released(p.claim, oracle.ByKill)
		}
	}
	b.w.e.after(down, func() {
		b.up = true
		b.remember(m)
		b.w.e.trace.say(b.w.e, "broker", "runs again", "", "")
		b.serve()
	})
}

// remember rebuilds the consumer and the duplicate window after a restart.
func (b *broker) remember(m memory) {
	b.w.witness.tell(oracle.Event{Kind: oracle.BrokerBack})
	b.consumer = leader{}
	clear(b.dedupe)
	clear(b.waiting.dedupe)
	for _, m := range b.waiting.intents {
		if id := given(m); id != "" {
			b.waiting.dedupe[id] = b.waiting.at[m.Seq]
		}
	}
	for seq, in := range b.intents {
		if id := given(in.msg); id != "" {
			b.dedupe[id] = known{seq, in.at}
		}
	}
	old := b.pending
	b.pending, b.again = make(map[uint64]*handed), nil
	defer b.loseAcks(m)
	switch m {
	case remembersNothing:
		b.next = 1
		return
	case remembersSome:
		b.next -= uint64(b.w.e.rng.Int64N(int64(b.next)))
	}
	for _, seq := range sortedKeys(old) {
		if seq >= b.next || b.intents[seq] == nil || m == remembersSome && b.passesOver(seq) {
			continue
		}
		p := &handed{count: old[seq].count, replicated: old[seq].replicated}
		if m == remembersSome {
			p.count = 1 + b.w.e.rng.Uint64N(p.count)
		}
		b.pending[seq] = p
		b.w.claims++
		p.claim = b.w.claims // a claim without an owner: it waits for its deadline
		b.w.witness.owned(b.intents[seq], p.claim, p.count)
		b.deadline(seq, p)
	}
}
