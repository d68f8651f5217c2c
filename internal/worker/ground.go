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
	// groundEvery is how often a worker looks whether the streams, the bucket and
	// the consumer are there. It costs five small requests.
	groundEvery = 3 * time.Second
	// groundTimeout bounds one look.
	groundTimeout = 4 * time.Second
	// reviveLooks is how many looks in a row every worker has seen a part missing
	// before one of them makes it anew.
	reviveLooks = 4
)

// ground watches what a worker stands on: the streams, the fleet's bucket and
// the consumer. While one of them is missing the gate is held. Workers make the
// consumer and the bucket anew; what a stream held is lost, so that a person has
// to restore it or to accept the loss (worker repair).
type ground struct {
	queue   *queue.Queue
	gate    *gate.Gate
	log     zerolog.Logger
	every   time.Duration
	ackWait time.Duration

	since map[queue.Part]time.Time // when a part was first found missing
	born  map[queue.Part]time.Time // when a part was made, as last seen
	hold  string                   // what the gate is held for

	mu       sync.Mutex // guards the following
	last     []queue.PartState
	replaced map[queue.Part]uint64
}

func newGround(q *queue.Queue, gate *gate.Gate, log zerolog.Logger, every, ackWait time.Duration) *ground {
	if every == 0 {
		every = groundEvery
	}
	return &ground{queue: q, gate: gate, log: log, every: every, ackWait: ackWait,
		since: make(map[queue.Part]time.Time), born: make(map[queue.Part]time.Time), replaced: make(map[queue.Part]uint64)}
}

func (g *ground) run(ctx context.Context) {
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	for {
		g.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (g *ground) look(parent context.Context) {
	ctx, cancel := context.WithTimeout(parent, groundTimeout)
	defer cancel()
	now, err := g.queue.Inspect(ctx)
	if err != nil { // what was seen last stands; a lost connection is logged where it is lost
		g.log.Debug().Err(err).Msg("streams not looked at")
		return
	}
	g.mu.Lock()
	g.last = now
	g.mu.Unlock()
	for _, s := range now {
		if s.Missing() {
			g.missing(s)
		} else {
			g.present(s)
		}
	}
	g.revive(ctx, now)
	g.keepGate(now)
}

func (g *ground) missing(s queue.PartState) {
	if s.Part == queue.PartConsumer {
		g.queue.ForgetDeliveries() // at every look: the last one has seen all marks
	}
	if _, known := g.since[s.Part]; known {
		return
	}
	g.since[s.Part] = time.Now()
	g.log.Error().Str("part", string(s.Part)).Msg(s.Name + " is missing at the broker; " + remedy(s))
}

// remedy says who brings a missing part back.
func remedy(s queue.PartState) string {
	if s.Precious() {
		return "nothing is posted until it is back. " + queue.MissingAdvice
	}
	return "the workers make it anew"
}

// present tells of a part that came back, or was replaced between two looks.
func (g *ground) present(s queue.PartState) {
	_, was := g.since[s.Part]
	delete(g.since, s.Part)
	before, known := g.born[s.Part]
	g.born[s.Part] = s.Created
	if s.Created.Equal(before) || !known && !was {
		return
	}
	if s.Part == queue.PartConsumer && !was {
		g.queue.Disconnected()
	}
	if !s.Precious() {
		g.log.Warn().Str("part", string(s.Part)).Time("made_at", s.Created).Msg(s.Name + " was made anew")
		return
	}
	g.mu.Lock()
	g.replaced[s.Part]++
	g.mu.Unlock()
	g.log.Error().Str("part", string(s.Part)).Time("made_at", s.Created).
		Msg(s.Name + " was made anew while this worker ran: what the former one held is gone, unless it was restored. See OrderpostStreamsMissing in docs/runbook.md")
}

// revive makes the consumer and the bucket anew, once every worker has noticed
// that they are gone and every claim from the lost consumer is over (R7). It
// leaves a broker alone that lacks a stream: it may be another one.
func (g *ground) revive(ctx context.Context, now []queue.PartState) {
	for _, s := range now {
		if s.Precious() && s.Missing() {
			return
		}
	}
	for _, s := range now {
		if !s.Missing() || time.Since(g.since[s.Part]) < g.patience(s.Part) {
			continue
		}
		var err error
		switch s.Part {
		case queue.PartConsumer:
			err = g.queue.ReviveConsumer(ctx)
		case queue.PartFleet:
			err = g.queue.ReviveBucket(ctx)
		}
		if err != nil {
			g.log.Warn().Err(err).Msg(s.Name + " was not made anew; trying again")
		}
	}
}

// patience is how long a part is missing before a worker makes it anew.
func (g *ground) patience(p queue.Part) time.Duration {
	if p == queue.PartConsumer {
		return max(g.ackWait, reviveLooks*g.every)
	}
	return reviveLooks * g.every
}

// keepGate holds the gate while a part is missing.
func (g *ground) keepGate(now []queue.PartState) {
	text := describe(now)
	if text == g.hold {
		return
	}
	if text != "" {
		g.gate.Hold(text, time.Time{})
	}
	if g.hold != "" {
		g.gate.Release(g.hold)
	}
	if g.hold = text; text == "" {
		g.log.Info().Msg("all streams, the bucket and the consumer are there again")
	}
}

// describe says what is missing, and what to do; "" where nothing is.
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
		return queue.DescribeMissing(rest) + " at the broker; the workers make them anew"
	case len(rest) == 1:
		return queue.DescribeMissing(rest) + " at the broker; the workers make it anew"
	}
	return ""
}

// tell gives the parts for metrics and readiness. Both are empty until the
// broker has been asked.
func (g *ground) tell() (parts []ops.Part, missing string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.last {
		parts = append(parts, ops.Part{Name: string(s.Part), Present: !s.Missing(), Replaced: g.replaced[s.Part], Precious: s.Precious()})
	}
	return parts, describe(g.last)
}
