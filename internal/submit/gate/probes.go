package gate

import (
	"time"
)

// maxProbeDelay is the longest time between two probes of a denied key.
const maxProbeDelay = 5 * time.Minute

// KeySuspected shuts the gate after the first denial of the key in use. The
// worker then asks the API for the account with that key. KeySuspected does
// nothing if the credentials block already stands.
func (g *Gate) KeySuspected(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.blocks[BlockCredentials] == nil {
		g.shut(BlockCredentials, reason, jittered(g.cfg.ProbeDelay))
	}
}

// KeyDenied shuts the gate because the account denied the key in use. After
// Config.ProbeDelay the worker asks with the next key.
func (g *Gate) KeyDenied(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut(BlockCredentials, reason, jittered(g.cfg.ProbeDelay))
}

// AllKeysDenied shuts the gate because the account denied every key. The worker
// probes with exponential backoff.
func (g *Gate) AllKeysDenied(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shutLonger(BlockCredentials, reason, g.cfg.ProbeDelay, maxProbeDelay)
}

// KeysChanged probes a denied credential at once because there are new keys.
func (g *Gate) KeysChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.blocks[BlockCredentials]; b != nil && b.stage == StageShut {
		b.until = time.Now()
	}
	g.notify() // denied orders in hand wait for a change
}

// Probed reports the result of a probe that [Gate.Tick] asked for. If the API
// answered, Probed puts each block that waited for the probe on trial. The
// caller has already shut the credentials block again if the account denied the
// key. detail says what came back.
func (g *Gate) Probed(answered bool, detail string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, b := range g.blocks {
		switch {
		case b.stage != StageProbe:
		case answered:
			g.startTrial(name)
		case name == BlockBreaker:
			g.stillFailing("the account was asked", detail, "", 4*g.cfg.BreakerOpen) // it costs the API less than an order
		default:
			g.shutLonger(name, b.reason, g.cfg.ProbeDelay, maxProbeDelay)
		}
	}
}

// clockTries is how many doublings of Config.ProbeDelay precede the first trial of a
// clock that still looks wrong.
const clockTries = 3

// ClockOff shuts the gate because the API refused the timestamp of an attempt. This
// machine's clock concerns no other worker, so the block is not shared. The worker asks
// the API for the account until its clock agrees with the API's. Now and then an order
// is tried although it does not.
func (g *Gate) ClockOff(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.blocks[BlockClock]
	switch {
	case b == nil:
		b = &block{since: time.Now()}
		g.blocks[BlockClock] = b
	case b.stage != StageTrial:
		b.reason = reason
		return // another attempt of the same burst
	}
	b.trial = jittered(min(g.cfg.ProbeDelay<<min(b.tries+clockTries, 20), maxProbeDelay))
	b.tries++
	b.stage = StageProbe // shut sees a change
	g.shut(BlockClock, reason, jittered(g.cfg.ProbeDelay))
}

// Stands reports whether a block stands.
func (g *Gate) Stands(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.blocks[name] != nil
}

// ClockLooked reports what the clock looks like after the probe that [Gate.Tick] asked
// for: reason says what is wrong with it, "" that it agrees with the API's. Then the
// block is lifted.
func (g *Gate) ClockLooked(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.blocks[BlockClock]
	switch {
	case b == nil || b.stage != StageProbe:
	case reason == "":
		g.lift(BlockClock)
	case time.Now().Before(b.trial):
		b.reason = reason
		b.stage, b.until = StageShut, jittered(2*g.cfg.ProbeDelay)
		g.notify()
	}
}
