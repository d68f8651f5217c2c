package gate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"orderpost/internal/order"
)

// Stage says how far a block, or the gate as a whole, is shut.
type Stage uint8

// The stages of the gate and of each of its blocks.
const (
	// StageOpen: no block.
	StageOpen Stage = iota
	// StageTrial: one order at a time is let through to test the API.
	StageTrial
	// StageProbe: the worker asks the API for the account, without an order.
	StageProbe
	// StageShut: no attempt goes out until the block's time is up or a person resumes.
	StageShut
)

var stageNames = [...]string{"open", "trial", "probe", "shut"}

// String returns the word used in logs and metrics.
func (s Stage) String() string { return stageNames[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Stage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// The names of the gate's own blocks. A hold is named "hold: " plus its reason.
const (
	BlockBreaker     = "breaker"     // shut → probe → trial → lifted
	BlockCredentials = "credentials" // shut → probe → trial → lifted
	BlockClock       = "clock"       // shut → probe → lifted, or → trial → lifted: the API refuses timestamps
	BlockThrottle    = "throttle"    // shut → lifted
	BlockAnswer      = "answer"      // shut → trial → lifted: an answer that only a rule can settle
	BlockRefusals    = "refusals"    // shut → trial → lifted: a run of refusals, 404 and the like

	holdPrefix = "hold: "
)

// BlockNames lists the label values for blocks. Every hold is counted as "hold".
func BlockNames() []string {
	return []string{BlockBreaker, BlockCredentials, BlockClock, BlockThrottle, BlockAnswer, BlockRefusals, "hold"}
}

// block is one reason why the gate is not open.
type block struct {
	reason string
	stage  Stage
	since  time.Time
	until  time.Time // when a shut block enters its next stage by itself; zero = never
	tries  int       // failed trials and probes
	tried  time.Time // start of the trial
	trial  time.Time // of BlockClock: an order is tried then, even if the clock still looks wrong
	normal bool      // part of the normal course: nobody needs to hear of it
}

// BlockState is a copy of a block's state.
type BlockState struct {
	Name   string
	Reason string
	Stage  Stage
	Since  time.Time
	Until  time.Time // when it enters its next stage by itself; zero = never
}

// Signal tells the gate what an attempt showed.
type Signal struct {
	Verdict order.Verdict // VerdictNone = no attempt was made
	Failed  bool          // the API, or the way to it, looks broken
	// Cause says why the attempt failed. Body is the start of the answer.
	// Neither contains keys.
	Cause, Body string
}

// Hold shuts the gate for a reason given by a person or by the program. The
// hold ends at the given time. With the zero time it stands until [Gate.Release]
// or [Gate.Resume]. A second Hold with the same reason replaces the time.
func (g *Gate) Hold(reason string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut(holdPrefix+reason, reason, until)
}

// Pause is a hold of the normal course, such as that of a worker that is
// starting: it is logged at debug. Release lifts it.
func (g *Gate) Pause(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := holdPrefix + reason
	if g.blocks[name] == nil {
		g.blocks[name] = &block{since: time.Now(), reason: reason, stage: StageShut, normal: true}
		g.log.Debug().Str("block", name).Str("reason", reason).Msg("gate pauses")
	}
	g.notify()
}

// Release lifts the hold that was put up for this reason.
func (g *Gate) Release(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lift(holdPrefix + reason)
}

// Resume lifts every hold, including those that answers caused. A person calls
// it after looking at the worker.
//
// Resume after a run of refusals confirms the refusals: the worker believes
// further ones for a while. Resume does not lift a denied credential or an open
// breaker, but probes them at once. A throttle runs out by itself.
func (g *Gate) Resume() { g.resume(true) }

// ResumeAnswers is [Gate.Resume] for a person who looked at the API but not at
// this worker. It lifts or probes the blocks that answers caused. Other holds,
// such as those of the broker's storage and of the fleet, stay.
func (g *Gate) ResumeAnswers() { g.resume(false) }

func (g *Gate) resume(holds bool) {
	g.mu.Lock()
	_, refusals := g.blocks[BlockRefusals]
	for name, b := range g.blocks {
		switch {
		case name == BlockAnswer, name == BlockRefusals, holds && strings.HasPrefix(name, holdPrefix):
			g.lift(name)
		case (name == BlockBreaker || name == BlockCredentials || name == BlockClock) && b.stage == StageShut:
			b.until, b.trial = time.Now(), time.Time{}
		}
	}
	g.notify()
	g.mu.Unlock()
	if refusals {
		g.hooks.Resumed()
	}
}

// shut puts up a block, or shuts it again. The caller holds g.mu.
func (g *Gate) shut(name, reason string, until time.Time) {
	now := time.Now()
	wasOpen := len(g.blocks) == 0
	b := g.blocks[name]
	fresh := b == nil
	if fresh {
		b = &block{since: now}
		g.blocks[name] = b
	}
	changed, news := fresh || b.stage != StageShut || b.reason != reason, fresh || b.reason != reason
	b.reason, b.stage, b.until = reason, StageShut, until
	if changed {
		e := g.log.Warn()
		if !news { // the probe found the same as the one before
			e = g.log.Debug()
		}
		e = e.Str("block", name).Str("reason", reason)
		if !until.IsZero() {
			e = e.Time("until", until.UTC())
		}
		if wasOpen {
			e.Msg("gate closed")
		} else {
			e.Msg("gate stays closed")
		}
	}
	g.notify()
}

// lift removes a block. The ramp restarts from one attempt, except after a
// throttle, which has already cut it. The caller holds g.mu.
func (g *Gate) lift(name string) {
	b := g.blocks[name]
	if b == nil {
		return
	}
	delete(g.blocks, name)
	if name != BlockThrottle {
		g.limit = 1
		g.breaker.reset()
	}
	e := g.log.Info()
	if b.normal {
		e = g.log.Debug()
	}
	if len(g.blocks) == 0 {
		e.Str("block", name).Msg("gate opened")
	} else {
		e.Str("block", name).Msg("block lifted, gate stays closed")
	}
	g.notify()
}

// startTrial puts a block on trial. The caller holds g.mu.
func (g *Gate) startTrial(name string) {
	b := g.blocks[name]
	if b == nil || b.stage == StageTrial {
		return
	}
	b.stage, b.until, b.tried = StageTrial, time.Time{}, time.Now()
	g.log.Info().Str("block", name).Msg("gate lets one order through on trial")
	g.notify()
}

// stage returns the strictest stage of all blocks. The caller holds g.mu.
func (g *Gate) stage() Stage {
	s := StageOpen
	for _, b := range g.blocks {
		s = max(s, b.stage)
	}
	return s
}

// yieldsTrial reports whether a waiter must still let other orders try first.
// A suspect order yields for Config.OthersFirst.
func (g *Gate) yieldsTrial(w *waiter) bool {
	return w.suspect && time.Now().Before(g.othersFirstUntil())
}

func (g *Gate) othersFirstUntil() time.Time {
	var last time.Time
	for _, b := range g.blocks {
		if b.tried.After(last) {
			last = b.tried
		}
	}
	return last.Add(g.cfg.OthersFirst)
}

// Tick advances every block whose time is up. It returns when to call Tick next
// (zero = no block has a time) and whether a block waits for a probe of the
// account.
func (g *Gate) Tick() (next time.Time, probe bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for name, b := range g.blocks {
		if b.stage == StageShut && !b.until.IsZero() && !now.Before(b.until) {
			g.advance(name, b)
		}
	}
	g.admit()
	if g.stage() == StageTrial && g.waiters.Len() > 0 && now.Before(g.othersFirstUntil()) {
		next = g.othersFirstUntil()
	}
	for _, b := range g.blocks {
		probe = probe || b.stage == StageProbe
		if b.stage == StageShut && !b.until.IsZero() && (next.IsZero() || b.until.Before(next)) {
			next = b.until
		}
	}
	return next, probe
}

// advance moves a block whose time is up to its next stage.
func (g *Gate) advance(name string, b *block) {
	switch name {
	case BlockBreaker, BlockCredentials, BlockClock:
		b.stage, b.until = StageProbe, time.Time{}
		g.notify()
	case BlockAnswer, BlockRefusals:
		g.startTrial(name)
	default:
		g.lift(name)
	}
}

// Release returns the permit and tells the gate what the attempt showed.
func (p *Permit) Release(s Signal) {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	p.released = true
	if p.passed {
		g.pace.passed.Add(-1)
	}
	g.inflight--
	if p.trial {
		g.trials--
		g.judgeTrial(s)
	}
	if s.Verdict.Conclusive() {
		g.throttle = 0
		g.limit = min(g.limit+1, g.cfg.Concurrency)
	}
	if now := time.Now(); g.blocks[BlockBreaker] == nil && s.countsForBreaker() {
		if s.Failed {
			g.failures.add(now, s)
		}
		if g.breaker.record(now, s.Failed) {
			g.breakerReason = APIFails + ": " + g.failures.summary(now.Add(-g.cfg.BreakerWindow))
			g.shut(BlockBreaker, g.breakerReason, jittered(g.cfg.BreakerOpen))
		}
	}
	g.admit()
}

// Abandon returns the permit if Release was not called. It is deferred: without
// it, every order that panics would take one slot from the gate for good.
func (p *Permit) Abandon() {
	if !p.released {
		p.Release(Signal{})
	}
}

// countsForBreaker reports whether the breaker counts the attempt. It ignores
// throttles and denials, which have blocks of their own.
func (s Signal) countsForBreaker() bool { return s.Failed || s.Verdict.Conclusive() }

// judgeTrial lifts or shuts the blocks on trial after a trial attempt. It does
// not shut the answer and refusals blocks again: HoldByAnswer does.
func (g *Gate) judgeTrial(s Signal) {
	if s.Verdict == order.VerdictNone {
		return
	}
	for name, b := range g.blocks {
		if b.stage != StageTrial {
			continue
		}
		switch {
		case name == BlockBreaker && s.Failed:
			g.stillFailing("one order was tried", s.Cause, s.Body, 16*g.cfg.BreakerOpen)
		case name == BlockBreaker,
			name == BlockClock && s.Verdict == order.Denied, // not for its timestamp: ClockOff has shut it then
			name == BlockRefusals && s.Verdict.Exists(),
			(name == BlockAnswer || name == BlockCredentials || name == BlockClock) && s.Verdict.Conclusive():
			g.lift(name)
		}
	}
}

// APIFails begins the reason of an open breaker.
const APIFails = "requests to the API keep failing"

// stillFailing shuts the breaker for longer, at most for longest, after one more failed
// look at the API. Each worker of a fleet looks for itself, so the backoff bounds what they
// ask together.
func (g *Gate) stillFailing(looked, cause, body string, longest time.Duration) {
	text := g.breakerReason + ". Since then " + looked + ", and failed: " + cause
	if body != "" {
		text += "; it was answered: " + body
	}
	g.shutLonger(BlockBreaker, text, g.cfg.BreakerOpen, longest)
}

// shutLonger shuts a block with exponential backoff: base, doubled with each
// failed try, at most longest. With base 0 the block stands until a person
// resumes.
func (g *Gate) shutLonger(name, reason string, base, longest time.Duration) {
	tries := 0
	if b := g.blocks[name]; b != nil {
		if b.stage == StageShut {
			return // another attempt of the same burst
		}
		b.tries++
		tries = b.tries
	}
	until := time.Time{}
	if base > 0 {
		wait := base
		for range min(tries, 20) {
			wait = min(2*wait, longest)
		}
		until = jittered(wait)
	}
	g.shut(name, reason, until)
}

// longestHold is longer than any setting of time, and far below what a time.Duration holds.
const longestHold = 128 * 365 * 24 * time.Hour

// HoldByAnswer shuts the gate because of an answer. name is BlockAnswer or
// BlockRefusals. After Config.HoldRetry one order is let through on trial.
func (g *Gate) HoldByAnswer(name, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shutLonger(name, reason, g.cfg.HoldRetry, 16*min(g.cfg.HoldRetry, longestHold/16))
}

// TrialOf reports whether the permit was given to try the block, and whether the
// block stands.
func (g *Gate) TrialOf(p *Permit, name string) (onTrial, stands bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.blocks[name]
	return p.trial && b != nil && b.stage == StageTrial, b != nil
}

// RulesChanged puts the blocks on trial that answers caused, because there are new rules.
func (g *Gate) RulesChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range []string{BlockAnswer, BlockRefusals} {
		g.startTrial(name)
	}
}

// SuspectWait reports whether the block is on trial or lifted, and how much
// longer a suspect order must let other orders try first.
func (g *Gate) SuspectWait(name string) (left time.Duration, trying bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.blocks[name]
	switch {
	case b == nil:
		return 0, true
	case b.stage == StageTrial:
		return time.Until(b.tried.Add(g.cfg.OthersFirst)), true
	default:
		return 0, false
	}
}

// Throttle shuts the gate for d after the API asked for slower requests. d 0
// means that the API named no time: Throttle then backs off exponentially.
// Throttle also halves the ramp, once for all requests in flight at that time.
// sent is when the request was sent.
func (g *Gate) Throttle(d time.Duration, sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if sent.After(g.rampCut) || g.rampCut.IsZero() {
		g.limit = max(1, min(g.limit, g.inflight)/2)
		g.rampCut = time.Now()
		g.throttle++
	}
	if d == 0 {
		// g.throttle may be 0: an order settled meanwhile resets it.
		d = min(time.Second<<min(max(g.throttle-1, 0), 6), time.Minute, g.cfg.LongestWait)
	}
	until := time.Now().Add(d)
	if b := g.blocks[BlockThrottle]; b != nil && !until.After(b.until) {
		return
	}
	g.shut(BlockThrottle, fmt.Sprintf("the API asks for slower requests (for %s)", d.Round(time.Millisecond)), until)
}

// jittered returns now + d, plus up to 10 % of d.
func jittered(d time.Duration) time.Time {
	return time.Now().Add(d + time.Duration(rand.Int64N(int64(d)/10+1)))
}
