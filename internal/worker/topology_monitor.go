package worker

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/ops"
	"orderpost/internal/queue"
	"orderpost/internal/submit/gate"
)

const (
	// topologyEvery is how often a worker checks that the streams, the bucket and the
	// consumer exist. A check costs five small requests.
	topologyEvery = 3 * time.Second
	// topologyTimeout is the timeout of one check.
	topologyTimeout = 4 * time.Second
	// reviveAfterLooks is the number of checks for which a part is missing before a worker
	// creates it again. By then every worker has noticed.
	reviveAfterLooks = 4
	// journalLooks is the number of checks between two checks of the journal.
	journalLooks = 10
)

// topologyMonitor checks that the streams, the fleet's bucket and the consumer exist.
// While one of these parts is missing, it holds the gate. Workers create the consumer
// and the bucket again. The content of a stream is lost, so a person must restore the
// stream or accept the loss (worker repair).
type topologyMonitor struct {
	queue   *queue.Queue
	gate    *gate.Gate
	log     zerolog.Logger
	every   time.Duration
	ackWait time.Duration

	looks     int
	noJournal bool // the journal cannot be used by this worker, which asks no more

	since map[queue.Part]time.Time // when a part was first found missing
	born  map[queue.Part]time.Time // when a part was created, as last seen
	hold  string                   // the reason of the hold; "" = none

	mu       sync.Mutex // guards last and replaced
	last     []queue.PartState
	replaced map[queue.Part]uint64
}

func newTopologyMonitor(q *queue.Queue, gate *gate.Gate, log zerolog.Logger, every, ackWait time.Duration) *topologyMonitor {
	if every == 0 {
		every = topologyEvery
	}
	return &topologyMonitor{queue: q, gate: gate, log: log, every: every, ackWait: ackWait,
		since: make(map[queue.Part]time.Time), born: make(map[queue.Part]time.Time), replaced: make(map[queue.Part]uint64)}
}

func (m *topologyMonitor) run(ctx context.Context) {
	repeat(ctx, m.every, m.look)
}

func (m *topologyMonitor) look(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, topologyTimeout)
	defer cancel()
	now, err := m.queue.Inspect(ctx)
	if err != nil { // the last result stays; the queue logs a lost connection
		m.log.Debug().Err(err).Msg("cannot check the streams")
		return
	}
	m.mu.Lock()
	m.last = now
	m.mu.Unlock()
	for _, s := range now {
		if s.Missing() {
			m.missing(s)
		} else {
			m.present(s)
		}
	}
	m.revive(ctx, now)
	m.keepGate(now)
	if m.looks++; m.looks%journalLooks == 0 && describe(now) == "" {
		m.keepJournal(ctx)
	}
}

// keepJournal creates the journal if it is missing. Orders go on without it.
func (m *topologyMonitor) keepJournal(ctx context.Context) {
	if m.noJournal {
		return
	}
	made, err := m.queue.EnsureJournal(ctx)
	switch {
	case made:
		m.log.Warn().Msg("the journal of people's acts was missing at the broker; created it, empty")
	case err != nil && ctx.Err() == nil: // the queue has told it at the start
		m.log.Debug().Err(err).Msg("cannot check the journal")
		m.noJournal = true
	}
}

func (m *topologyMonitor) missing(s queue.PartState) {
	if s.Part == queue.PartConsumer {
		m.queue.ForgetDeliveries() // at every check, so that the last one covers all marks
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
func (m *topologyMonitor) present(s queue.PartState) {
	if s.Part == queue.PartConsumer {
		m.alignClaims(s)
	}
	_, was := m.since[s.Part]
	delete(m.since, s.Part)
	before, known := m.born[s.Part]
	m.born[s.Part] = s.Created
	if s.Created.Equal(before) || !known && !was {
		return
	}
	if s.Part == queue.PartConsumer && !was {
		m.queue.Disconnected()
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
	if former := m.queue.AlignClaims(s.AckWait); former != s.AckWait {
		m.log.Warn().Stringer("from", former).Stringer("to", s.AckWait).
			Msg(s.Name + " has another AckWait since: this worker gave up its orders, which are delivered again, and keeps to the new one. Give all workers the same ORDERPOST_ACK_WAIT")
	}
}

// revive creates the consumer and the bucket again, after every worker has noticed the
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
			err = m.queue.ReviveConsumer(ctx)
		case queue.PartFleet:
			err = m.queue.ReviveBucket(ctx)
		}
		if err != nil {
			m.log.Warn().Err(err).Msg("cannot create " + s.Name + " again; will retry")
		}
	}
}

// patience returns how long a part is missing before a worker creates it again.
func (m *topologyMonitor) patience(p queue.Part) time.Duration {
	if p == queue.PartConsumer {
		return max(m.ackWait, m.queue.ClaimTerm(), reviveAfterLooks*m.every)
	}
	return reviveAfterLooks * m.every
}

// keepGate holds the gate while a part is missing.
func (m *topologyMonitor) keepGate(now []queue.PartState) {
	text := describe(now)
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
		m.log.Info().Msg("all streams, the bucket and the consumer exist again")
	}
}

// describe says what is missing and what to do; "" = nothing is missing.
func describe(now []queue.PartState) string {
	var precious, rest []string
	for _, s := range now {
		switch {
		case !s.Missing():
		case s.Precious():
			precious = append(precious, s.Name)
		default:
			rest = append(rest, s.Name)
		}
	}
	switch {
	case len(precious) == 3:
		return "the broker has lost all streams (" + strings.Join(precious, ", ") + "): it was started with an empty store, or it is another broker. " + queue.MissingAdvice
	case len(precious) > 0:
		return queue.DescribeMissing(precious) + " at the broker. " + queue.MissingAdvice
	case len(rest) > 1:
		return queue.DescribeMissing(rest) + " at the broker; the workers create them again"
	case len(rest) == 1:
		return queue.DescribeMissing(rest) + " at the broker; the workers create it again"
	}
	return ""
}

// status returns the parts for metrics, and what is missing for readiness. Both are
// empty before the first check.
func (m *topologyMonitor) status() (parts []ops.Part, missing string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.last {
		parts = append(parts, ops.Part{Name: string(s.Part), Present: !s.Missing(), Replaced: m.replaced[s.Part], Precious: s.Precious()})
	}
	return parts, describe(m.last)
}
