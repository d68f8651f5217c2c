package gate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"orderpost/internal/order"
)

// Stage says how shut the gate is.
type Stage uint8

// The stages of the gate and of each of its blocks.
const (
	// StageOpen: no block.
	StageOpen Stage = iota
	// StageTrial: one order at a time shows whether the block can go.
	StageTrial
	// StageProbe: the account is being asked.
	StageProbe
	// StageShut: nothing passes until the block's time is up, or a person resumes.
	StageShut
)

var stageNames = [...]string{"open", "trial", "probe", "shut"}

// String gives the word used in logs and metrics.
func (s Stage) String() string { return stageNames[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Stage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// The names of the gate's own blocks. A hold's name is "hold: " and its reason.
const (
	BlockBreaker     = "breaker"     // shut → probe → trial → gone
	BlockCredentials = "credentials" // shut → probe → trial → gone
	BlockThrottle    = "throttle"    // shut → gone
	BlockAnswer      = "answer"      // shut → trial → gone: a 2xx that nobody can read
	BlockRefusals    = "refusals"    // shut → trial → gone: a run of refusals, 404 or 405

	// elsewhere ends the names of blocks that stand at another worker of the
	// fleet, which asks the API for all: shut → gone.
	elsewhere = "-elsewhere"

	holdPrefix = "hold: "
)

// BlockNames lists the gate's own blocks, for label values. Holds are counted
// as "hold".
func BlockNames() []string {
	return []string{BlockBreaker, BlockBreaker + elsewhere, BlockCredentials, BlockCredentials + elsewhere, BlockThrottle, BlockAnswer, BlockRefusals, "hold"}
}

// block is one reason for which the gate is not open.
type block struct {
	reason string
	stage  Stage
	since  time.Time
	until  time.Time // when a shut block moves on by itself; zero = it does not
	tries  int       // how often a trial or probe has failed
	tried  time.Time // when its trial began
	normal bool      // part of the normal course: nobody needs to hear of it
}

// BlockState is a block at one moment.
type BlockState struct {
	Name   string
	Reason string
	Stage  Stage
	Since  time.Time
	Until  time.Time // zero = not by itself
}

// Signal is what an attempt means for the gate.
type Signal struct {
	Verdict order.Verdict // VerdictNone: no attempt was made
	Failed  bool          // the API looks broken
	// Cause says why, and body how the answer began; both are free of keys.
	Cause, Body string
}

// Conclusive: the API has read the order and made up its mind.
func (s Signal) Conclusive() bool {
	return s.Verdict == order.Accepted || s.Verdict == order.Duplicate || s.Verdict == order.Rejected
}

// Hold shuts the gate for a reason that a person (or the program) gives, until
// a time, or with the zero time until it is released. The same reason again
// changes the time.
func (g *Gate) Hold(reason string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut(holdPrefix+reason, reason, until)
}

// Pause is a hold of the normal course, such as that of a worker that is
// starting: it is logged at debug. Release takes it back.
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

// Release takes one hold back.
func (g *Gate) Release(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lift(holdPrefix + reason)
}

// Resume lifts every hold, those caused by answers too: a person has looked.
// After a run of refusals it also says that those refusals are right: they are
// believed until the next acceptance. A denied credential or an open breaker
// is probed at once instead, by the worker whose it is, and a throttle is left to
// run out.
func (g *Gate) Resume() {
	g.mu.Lock()
	_, refusals := g.blocks[BlockRefusals]
	for name, b := range g.blocks {
		switch name {
		case BlockThrottle, BlockBreaker + elsewhere, BlockCredentials + elsewhere:
		case BlockBreaker, BlockCredentials:
			if b.stage == StageShut {
				b.until = time.Now()
			}
		default:
			g.lift(name)
		}
	}
	g.notify()
	g.mu.Unlock()
	if refusals {
		g.hooks.Resumed()
	}
}

// shut puts up a block, or shuts it again. The caller holds the lock, as of
// every function below.
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
		if !news { // a probe found what the one before it did
			e = g.log.Debug()
		}
		e = e.Str("block", name).Str("reason", reason)
		if !until.IsZero() {
			e = e.Time("until", until)
		}
		if wasOpen {
			e.Msg("gate closed")
		} else {
			e.Msg("gate stays closed")
		}
	}
	g.notify()
}

// lift takes a block away. When the last one goes, the ramp starts: after a
// throttle where it was cut, else from one.
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

// try puts a block on trial.
func (g *Gate) try(name string) {
	b := g.blocks[name]
	if b == nil || b.stage == StageTrial {
		return
	}
	b.stage, b.until, b.tried = StageTrial, time.Time{}, time.Now()
	g.log.Info().Str("block", name).Msg("gate lets one order through on trial")
	g.notify()
}

// stage is that of the block that is shut most. While this worker tries a shared
// block for the whole fleet, the shared blocks that other workers try do not
// count: two workers, each with a trial of its own that waits for the other's,
// would wait for ever.
func (g *Gate) stage() Stage {
	s, tries := StageOpen, g.triesForAll()
	for name, b := range g.blocks {
		if !tries || !triedElsewhere(name, b) {
			s = max(s, b.stage)
		}
	}
	return s
}

func (g *Gate) triesForAll() bool {
	return slices.ContainsFunc(SharedBlocks(), func(name string) bool {
		b := g.blocks[name]
		return b != nil && b.stage == StageTrial
	})
}

// triedElsewhere: the block is another worker's, or parked (Park).
func triedElsewhere(name string, b *block) bool {
	return strings.HasSuffix(name, elsewhere) || slices.Contains(SharedBlocks(), name) && b.stage == StageShut && b.until.IsZero()
}

// yields says whether a suspect order still leaves the trial to others; it does
// so for Config.OthersFirst.
func (g *Gate) yields(w *waiter) bool { return w.wary && time.Now().Before(g.othersFirstUntil()) }

func (g *Gate) othersFirstUntil() time.Time {
	var last time.Time
	for _, b := range g.blocks {
		if b.tried.After(last) {
			last = b.tried
		}
	}
	return last.Add(g.cfg.OthersFirst)
}

// Tick moves on what is due. It returns the time of the next move (zero =
// none) and whether a block waits for a probe of the account.
func (g *Gate) Tick() (next time.Time, probe bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	for name, b := range g.blocks {
		if b.stage == StageShut && !b.until.IsZero() && !now.Before(b.until) {
			g.moveOn(name, b)
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

func (g *Gate) moveOn(name string, b *block) {
	switch name {
	case BlockBreaker, BlockCredentials:
		b.stage, b.until = StageProbe, time.Time{}
		g.notify()
	case BlockAnswer, BlockRefusals:
		g.try(name)
	default:
		g.lift(name)
	}
}

// Release gives the permit back and tells the gate what the attempt showed.
func (p *Permit) Release(s Signal) {
	g := p.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	p.released = true
	g.inflight--
	if p.trial {
		g.trials--
		g.judgeTrial(s)
	}
	if s.Conclusive() {
		g.throttle = 0
		g.limit = min(g.limit+1, g.cfg.Concurrency)
	}
	if now := time.Now(); g.blocks[BlockBreaker] == nil && s.counts() {
		if s.Failed {
			g.failures.add(now, s)
		}
		if g.breaker.record(now, s.Failed) {
			g.failing = "requests to the API keep failing: " + g.failures.tell(now.Add(-g.cfg.BreakerWindow))
			g.shut(BlockBreaker, g.failing, jittered(g.cfg.BreakerOpen))
		}
	}
	g.admit()
}

// Abandon gives back a permit that nobody has released: its order panicked.
// Without it each panic would cost the gate one slot for good.
func (p *Permit) Abandon() {
	if !p.released {
		p.Release(Signal{})
	}
}

// counts says whether the breaker is interested: neither in throttles nor in
// denials, which have blocks of their own.
func (s Signal) counts() bool { return s.Failed || s.Conclusive() }

// judgeTrial lifts or shuts the blocks on trial. Answers and refusals shut
// theirs again where they are judged, by HoldFor.
func (g *Gate) judgeTrial(s Signal) {
	if s.Verdict == order.VerdictNone {
		return
	}
	created := s.Verdict == order.Accepted || s.Verdict == order.Duplicate
	for name, b := range g.blocks {
		if b.stage != StageTrial {
			continue
		}
		switch {
		case name == BlockBreaker && s.Failed:
			g.shutLonger(name, g.stillFailing("one order was tried", s.Cause, s.Body), g.cfg.BreakerOpen, 16*g.cfg.BreakerOpen)
		case name == BlockBreaker,
			name == BlockRefusals && created,
			(name == BlockAnswer || name == BlockCredentials) && s.Conclusive():
			g.lift(name)
		}
	}
}

// stillFailing is the breaker's reason after one more look at the API.
func (g *Gate) stillFailing(looked, cause, body string) string {
	text := cmp.Or(g.failing, "requests to the API keep failing") + ". Since then " + looked + ", and failed: " + cause
	if body != "" {
		text += "; it was answered: " + body
	}
	return text
}

// shutLonger shuts a block, for twice as long with each failed try, at most
// for longest; base 0 = until a person resumes.
func (g *Gate) shutLonger(name, reason string, base, longest time.Duration) {
	tries := 0
	if b := g.blocks[name]; b != nil {
		if b.stage == StageShut {
			return // one more of the same burst
		}
		b.tries++
		tries = b.tries
	}
	until := time.Time{}
	if base > 0 {
		until = jittered(min(base<<min(tries, 20), longest))
	}
	g.shut(name, reason, until)
}

// HoldFor shuts the gate for a block that an answer caused. After
// Config.HoldRetry one order is let through on trial.
func (g *Gate) HoldFor(name, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shutLonger(name, reason, g.cfg.HoldRetry, 16*g.cfg.HoldRetry)
}

// TrialOf says whether a block stands, and whether the permit was given to try it.
func (g *Gate) TrialOf(p *Permit, name string) (onTrial, stands bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.blocks[name]
	return p.trial && b != nil && b.stage == StageTrial, b != nil
}

// TrialLeft says whether a block is on trial, or gone, and how long a suspect
// order should still leave the trial to others.
func (g *Gate) TrialLeft(name string) (left time.Duration, trying bool) {
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

// Throttle makes the whole pool wait and cuts the ramp in half, once for all
// requests that were under way at the same time. d 0 = the API does not say.
func (g *Gate) Throttle(d time.Duration, sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if sent.After(g.halved) || g.halved.IsZero() {
		g.limit = max(1, min(g.limit, g.inflight)/2)
		g.halved = time.Now()
		g.throttle++
	}
	if d == 0 {
		// An order that was settled meanwhile set the count back to 0.
		d = min(time.Second<<min(max(g.throttle-1, 0), 6), time.Minute, g.cfg.LongestWait)
	}
	until := time.Now().Add(d)
	if b := g.blocks[BlockThrottle]; b != nil && !until.After(b.until) {
		return
	}
	g.shut(BlockThrottle, fmt.Sprintf("the API asks for slower requests (for %s)", d.Round(time.Millisecond)), until)
}

// jittered is now + d, or up to a tenth more.
func jittered(d time.Duration) time.Time {
	return time.Now().Add(d + time.Duration(rand.Int64N(int64(d)/10+1)))
}
