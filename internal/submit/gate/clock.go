package gate

import "time"

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
