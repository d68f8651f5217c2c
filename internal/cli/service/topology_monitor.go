package service

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/fleet"
	"orderpost/internal/ops"
	"orderpost/internal/queue"
	"orderpost/internal/submit/gate"
)

const (
	// topologyEvery is how often a worker checks that the streams, the bucket and the
	// consumer exist, and that no stream lost its end. A check costs a dozen small requests,
	// and one write in the fleet if a stream has grown.
	topologyEvery = 3 * time.Second
	// topologyMost is the pause of a worker in a large fleet that does not lead. The worker that
	// finds something asks all others to look at once.
	topologyMost = 30 * time.Second
	// topologyTimeout is the timeout of one check.
	topologyTimeout = 4 * time.Second
	// reviveAfterLooks is the number of checks for which the consumer is missing before a
	// worker creates it again. By then every worker has noticed.
	reviveAfterLooks = 4
)

// topologyMonitor checks that the streams, the fleet's bucket and the consumer exist, and
// that no stream ends before the place that it had reached, and that no replica lacks results.
// While a part is missing or lost its end, a replica lacks results, or the server is too old, it
// holds the gate. Workers create the consumer and the journal again. The content of a stream is
// lost, so a person must restore the stream or accept the loss (worker repair).
type topologyMonitor struct {
	queue   *queue.Queue
	fleet   *fleet.Control
	leads   func() bool
	gate    *gate.Gate
	log     zerolog.Logger
	every   time.Duration
	ackWait time.Duration

	since map[queue.Part]time.Time // when a part was first found missing
	stuck map[queue.Part]string    // what cannot be set back of a part, as logged
	born  map[queue.Part]time.Time // when a part was created, as last seen
	hold  string                   // the reason of the hold; "" = none
	seen  queue.Extents            // how far the streams had come at the last look
	told  string                   // which losses were logged

	replicas *queue.ReplicaWatch
	wake     chan struct{} // a look is due before its time
	asked    atomic.Bool   // by another worker
	failed   bool          // the last look did
	found    bool          // the last look found something that others must look at, too

	reconnects atomic.Uint64 // the gate is shut from each on, until a look that began after it

	mu       sync.Mutex // guards the following
	fresh    int        // for how many looks the gate stays shut, because the bucket is another one
	last     []queue.PartState
	losses   []queue.Loss
	gap      *queue.ReplicaGap
	replaced map[queue.Part]uint64
}

func newTopologyMonitor(q *queue.Queue, f *fleet.Control, leads func() bool, gate *gate.Gate, log zerolog.Logger, every, ackWait time.Duration) *topologyMonitor {
	if every == 0 {
		every = topologyEvery
	}
	m := &topologyMonitor{queue: q, fleet: f, leads: leads, gate: gate, log: log, every: every, ackWait: ackWait, replicas: q.Census.WatchReplicas(), wake: make(chan struct{}, 1),
		since: make(map[queue.Part]time.Time), born: make(map[queue.Part]time.Time), stuck: make(map[queue.Part]string), replaced: make(map[queue.Part]uint64)}
	q.Conn.OnReconnect(func() { // the broker may have been restarted on a damaged store, or on an older copy
		m.reconnects.Add(1)
		m.gate.Pause(holdReconnected)
		m.lookNow()
	})
	return m
}

func (m *topologyMonitor) lookNow() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// lookSoon is called when another worker found something, or the fleet's bucket cannot be read.
func (m *topologyMonitor) lookSoon() {
	m.asked.Store(true)
	m.lookNow()
}

// pause is the time until the next look. The worker that leads looks often, so that the bucket
// remembers how far the streams have come.
func (m *topologyMonitor) pause() time.Duration {
	if m.failed || m.found || m.hold != "" || m.leads() {
		return m.every
	}
	return m.fleet.Spread(m.every, topologyMost)
}

// first looks before the pool begins, so that no order is posted on a damaged store. It
// gives a broker that does not answer a few tries; afterwards run looks on.
func (m *topologyMonitor) first(ctx context.Context) {
	for range firstLooks {
		if m.look(ctx); m.seen != nil || ctx.Err() != nil {
			return
		}
	}
}

// firstLooks is how often first tries.
const firstLooks = 3

// run looks until ctx ends, and remembers at the end how far the streams came.
func (m *topologyMonitor) run(ctx context.Context) {
	repeat(ctx, m.pause, m.wake, m.look)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), topologyTimeout)
	defer cancel()
	m.compare(ctx) // sees the end
	m.compare(ctx) // remembers it
}

// holdReconnected shuts the gate for a moment.
const holdReconnected = "the broker is back, and its streams are looked at"

func (m *topologyMonitor) look(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, topologyTimeout)
	defer cancel()
	reconnects, asked, found := m.reconnects.Load(), m.asked.Swap(false), m.found
	m.failed, m.found = true, false
	m.mu.Lock()
	last := m.last
	m.mu.Unlock()
	m.keepGate(last) // a reconnect may have led to a server that is refused
	now, err := m.queue.Topology.Inspect(ctx)
	if err != nil { // the last result stays; the queue logs a lost connection
		m.log.Debug().Err(err).Msg("cannot check the streams")
		return
	}
	m.setBack(ctx, now)
	m.mu.Lock()
	m.last = now
	m.mu.Unlock()
	for _, s := range now {
		m.found = m.found || s.Missing() || s.Edited != "" || s.Wrong != ""
		if s.Missing() {
			m.missing(s)
		} else {
			m.present(ctx, s)
		}
	}
	compared := m.compare(ctx)
	m.compareReplicas(ctx)
	m.revive(ctx, now)
	m.mu.Lock()
	m.fresh = max(m.fresh-1, 0)
	m.found = m.found || len(m.losses) > 0 || m.replicas.Suspects()
	m.mu.Unlock()
	m.failed = !compared
	if m.found && !found && !asked {
		if err := m.fleet.AskLooks(ctx); err != nil {
			m.log.Debug().Err(err).Msg("the other workers are not asked to look at the streams; they will by themselves")
		}
	}
	m.keepGate(now)
	if compared && reconnects == m.reconnects.Load() {
		m.gate.Release(holdReconnected)
	}
}

// compare looks whether a stream lost what its broker had confirmed, and remembers what
// the last look saw. It reports whether the broker answered.
func (m *topologyMonitor) compare(ctx context.Context) bool {
	losses, now, err := m.queue.Extents.Losses(ctx, m.seen)
	if err != nil {
		m.log.Debug().Err(err).Msg("cannot compare how far the streams have come")
		return false
	}
	if len(losses) == 0 && m.seen != nil {
		if err := m.queue.Extents.RememberExtents(ctx, m.seen, now); err != nil {
			m.log.Debug().Err(err).Msg("cannot remember how far the streams have come")
		}
	}
	if len(losses) == 0 || m.seen == nil { // else the next look would compare what is left with itself, if the bucket was lost, too
		m.seen = now
	}
	m.mu.Lock()
	m.losses = losses
	m.mu.Unlock()
	text := describeLosses(losses)
	if text != "" && text != m.told {
		m.log.Error().Msg(text + "; nothing is posted. " + queue.LossAdvice)
	}
	m.told = text
	return true
}

// compareReplicas looks whether a replica of the results lacks some.
func (m *topologyMonitor) compareReplicas(ctx context.Context) {
	if err := m.replicas.Look(ctx); err != nil {
		m.log.Debug().Err(err).Msg("cannot compare the replicas of the results")
		return
	}
	gap := m.replicas.Gap()
	m.mu.Lock()
	found := gap != nil && m.gap == nil
	m.gap = gap
	m.mu.Unlock()
	if found {
		m.log.Error().Msgf("%s; nothing is posted, since an accepted order could be posted again. %s", gap, queue.GapAdvice)
	}
}

// describeLosses names the streams that lost something; "" = none did.
func describeLosses(losses []queue.Loss) string {
	var lines []string
	for _, l := range losses {
		lines = append(lines, l.String())
	}
	return strings.Join(lines, "; ")
}

func (m *topologyMonitor) missing(s queue.PartState) {
	if s.Part == queue.PartConsumer {
		m.queue.Worker.ForgetDeliveries() // at every check, so that the last one covers all marks
	}
	if _, known := m.since[s.Part]; known {
		return
	}
	m.since[s.Part] = time.Now()
	m.log.Error().Str("part", string(s.Part)).Msg(s.Name + " is missing at the broker; " + remedy(s))
}

// remedy says who restores a missing part.
func remedy(s queue.PartState) string {
	if s.Precious() {
		return "nothing is posted until it is back. " + queue.MissingAdvice
	}
	return "the workers create it again"
}

// present notes a part that exists, and logs if it came back or was replaced.
func (m *topologyMonitor) present(ctx context.Context, s queue.PartState) {
	if s.Part == queue.PartConsumer {
		m.alignClaims(s)
	}
	_, was := m.since[s.Part]
	delete(m.since, s.Part)
	before, known := m.born[s.Part]
	another := !s.Created.Equal(before) && (known || was)
	if another && s.Part == queue.PartFleet {
		m.mu.Lock()
		m.fresh = 2 // until the next look; the fleet's member reads the hold in it meanwhile
		m.mu.Unlock()
		if err := m.queue.Worker.RestoreHighWaterMark(ctx); err != nil {
			m.log.Debug().Err(err).Msg("cannot write the high-water mark into the bucket again; the next look tries again")
			return
		}
	}
	m.born[s.Part] = s.Created
	if !another {
		return
	}
	m.found = true
	if s.Part == queue.PartConsumer && !was {
		m.queue.Worker.Disconnected()
	}
	if !s.Precious() {
		m.log.Warn().Str("part", string(s.Part)).Time("made_at", s.Created).Msg(s.Name + " was created again")
		return
	}
	m.mu.Lock()
	m.replaced[s.Part]++
	m.mu.Unlock()
	m.log.Error().Str("part", string(s.Part)).Time("made_at", s.Created).
		Msg(s.Name + " was created again while this worker ran: the content of the former one is lost unless it was restored. See OrderpostStreamsMissing in docs/runbook.md")
}

// alignClaims ends the claims that rely on an AckWait that the consumer has no longer. A
// worker that started while this one could not be seen, or a person, changed it.
func (m *topologyMonitor) alignClaims(s queue.PartState) {
	if former := m.queue.Claims.Align(s.AckWait); former != s.AckWait {
		m.found = true
		m.log.Warn().Stringer("from", former).Stringer("to", s.AckWait).
			Msg(s.Name + " has another AckWait since: this worker gave up its orders, which are delivered again, and keeps to the new one. Give all workers the same ORDERPOST_ACK_WAIT")
	}
}

// setBack sets back what somebody changed so that delivery stops, or the broker gives up intents or takes
// them away before a claim is over. What it cannot set back is wrong, and holds the gate. Orders go
// on without the journal.
func (m *topologyMonitor) setBack(ctx context.Context, now []queue.PartState) {
	for i := range now {
		s := &now[i]
		if s.Edited == "" {
			delete(m.stuck, s.Part)
			continue
		}
		err := m.queue.Topology.SetBack(ctx, s.Part)
		if err == nil {
			delete(m.stuck, s.Part)
			m.log.Warn().Str("part", string(s.Part)).Msg("somebody changed " + s.Name + ": " + s.Edited + ". Set back. If the broker gave up an intent meanwhile, orderpost audit names it")
			continue
		}
		if s.Part != queue.PartJournal && s.Wrong == "" {
			s.Wrong = s.Edited + ", and this worker cannot set that back. Set it back as the broker's administrator"
		}
		if m.stuck[s.Part] != s.Edited {
			m.stuck[s.Part] = s.Edited
			m.log.Error().Err(err).Str("part", string(s.Part)).Msg("somebody changed " + s.Name + ": " + s.Edited + ". It cannot be set back; will retry")
		}
	}
}

// revive creates the consumer and the journal again, after every worker has noticed the
// loss and every claim from the lost consumer has expired (R7). If a stream is missing
// too, revive does nothing: this may be another broker.
func (m *topologyMonitor) revive(ctx context.Context, now []queue.PartState) {
	for _, s := range now {
		if s.Precious() && s.Missing() {
			return
		}
	}
	for _, s := range now {
		if !s.Missing() || time.Since(m.since[s.Part]) < m.patience(s.Part) {
			continue
		}
		var err error
		switch s.Part {
		case queue.PartConsumer:
			err = m.queue.Topology.ReviveConsumer(ctx)
		case queue.PartJournal:
			err = m.queue.Topology.ReviveJournal(ctx)
		}
		if err != nil {
			m.log.Warn().Err(err).Msg("cannot create " + s.Name + " again; will retry")
		}
	}
}

// patience returns how long a part is missing before a worker creates it again.
func (m *topologyMonitor) patience(p queue.Part) time.Duration {
	if p == queue.PartConsumer {
		return max(m.ackWait, m.queue.Claims.Term(), reviveAfterLooks*m.every)
	}
	return 0
}

// keepGate holds the gate while a part is missing.
func (m *topologyMonitor) keepGate(now []queue.PartState) {
	text := m.describe(now)
	if text == m.hold {
		return
	}
	if text != "" {
		m.gate.Hold(text, time.Time{})
	}
	if m.hold != "" {
		m.gate.Release(m.hold)
	}
	if m.hold = text; text == "" {
		m.log.Info().Msg("the broker is as it should be again: all streams and the consumer are there")
	}
}

// describe says why the server is refused, or what is missing or was lost, and what to do;
// "" = nothing.
func (m *topologyMonitor) describe(now []queue.PartState) string {
	if text := m.queue.Conn.Refused(); text != "" {
		return text
	}
	if text := describe(now); text != "" {
		return text
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fresh > 0 {
		return "the fleet's bucket was created again, and is being read"
	}
	if text := describeLosses(m.losses); text != "" {
		return text + ". " + queue.LossAdvice
	}
	if m.gap != nil {
		return m.gap.String() + ". " + queue.GapAdvice
	}
	return ""
}

// describe says what is missing or passes over intents, and what to do; "" = nothing but the journal
// is missing, without which orders go on.
func describe(now []queue.PartState) string {
	var precious []string
	consumer, wrong := "", ""
	all := true // precious ones are missing
	for _, s := range now {
		all = all && (s.Missing() || !s.Precious())
		switch {
		case !s.Missing():
			if s.Wrong != "" {
				wrong = s.Name + ": " + s.Wrong
			}
		case s.Precious():
			precious = append(precious, s.Name)
		case s.Part == queue.PartConsumer:
			consumer = s.Name
		}
	}
	switch {
	case all && len(precious) > 0:
		return "the broker has lost all streams (" + strings.Join(precious, ", ") + "): it was started with an empty store, or it is another broker. " + queue.MissingAdvice
	case len(precious) > 0:
		return queue.DescribeMissing(precious) + " at the broker. " + queue.MissingAdvice
	case consumer != "":
		return queue.DescribeMissing([]string{consumer}) + " at the broker; the workers create it again"
	}
	return wrong
}

// status returns the parts for metrics, and what is missing for readiness. Both are
// empty before the first check.
func (m *topologyMonitor) status() (parts []ops.Part, missing string) {
	m.mu.Lock()
	last := m.last
	for _, s := range last {
		lost := slices.ContainsFunc(m.losses, func(l queue.Loss) bool { return l.Name == s.Name }) || m.gap != nil && m.gap.Stream == s.Name
		parts = append(parts, ops.Part{Name: string(s.Part), Present: !s.Missing() && !lost, Replaced: m.replaced[s.Part], Precious: s.Precious()})
	}
	m.mu.Unlock()
	return parts, cmp.Or(m.describe(last), m.queue.Conn.OrdersDenied())
}
