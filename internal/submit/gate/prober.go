package gate

import "time"

// SharedBlocks are the blocks that say something about the API or the account,
// and not about one worker: of a fleet, one worker probes for all.
func SharedBlocks() []string { return []string{BlockBreaker, BlockCredentials} }

// Follow shuts the gate while a shared block stands at another worker, which asks
// the API for all; the same block again changes the reason. Unfollow ends it.
func (g *Gate) Follow(name, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut(name+elsewhere, reason, time.Time{})
}

// Unfollow ends Follow.
func (g *Gate) Unfollow(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lift(name + elsewhere)
}

// Park keeps a shared block shut until Believe or Probe: another worker finds
// out when it can go. Nothing happens where the block does not stand.
func (g *Gate) Park(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.blocks[name]; b != nil && (b.stage != StageShut || !b.until.IsZero()) {
		b.stage, b.until = StageShut, time.Time{}
		g.notify()
	}
}

// Probe puts a shared block up and has it probed at once: the worker that did
// so for all is gone.
func (g *Gate) Probe(name, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if name == BlockBreaker {
		g.failing = reason
	}
	g.shut(name, reason, time.Now())
}

// Unpark has a parked block probed at once: it is this worker's to find out.
func (g *Gate) Unpark(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.blocks[name]; b != nil && b.stage == StageShut && b.until.IsZero() {
		b.until = time.Now()
		g.notify()
	}
}

// Believe ends the parking of a shared block after another worker found that it
// can go: the breaker closes, with the ramp from one; a denied key is asked
// about once more, since this worker's denials are its own.
func (g *Gate) Believe(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b := g.blocks[name]
	switch {
	case b == nil || b.stage != StageShut || !b.until.IsZero():
	case name == BlockBreaker:
		g.lift(name)
	default:
		b.until = time.Now()
		g.notify()
	}
}
