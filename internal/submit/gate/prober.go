package gate

import "time"

// SharedBlocks lists the blocks that concern the API or the account rather than
// one worker. One worker of a fleet, the prober, probes them for all.
func SharedBlocks() []string { return []string{BlockBreaker, BlockCredentials} }

// ShutRemote shuts the gate while a shared block stands at another worker, the
// prober. A second call replaces the reason. [Gate.LiftRemote] ends it.
func (g *Gate) ShutRemote(name, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut(name+remoteSuffix, reason, time.Time{})
}

// LiftRemote ends ShutRemote.
func (g *Gate) LiftRemote(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lift(name + remoteSuffix)
}

// DeferProbe leaves probing a shared block of this worker to another worker. The
// block stays shut until [Gate.RemoteRecovered], [Gate.ResumeProbe] or
// [Gate.ShutAndProbe]. DeferProbe does nothing if the block does not stand.
func (g *Gate) DeferProbe(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.blocks[name]; b != nil && (b.stage != StageShut || !b.until.IsZero()) {
		b.stage, b.until = StageShut, time.Time{}
		g.notify()
	}
}

// ShutAndProbe puts up a shared block and probes it at once. The worker calls it
// when it becomes the prober.
func (g *Gate) ShutAndProbe(name, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if name == BlockBreaker {
		g.breakerReason = reason
	}
	g.shut(name, reason, time.Now())
}

// ResumeProbe ends DeferProbe: this worker is the prober and probes at once.
func (g *Gate) ResumeProbe(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.blocks[name]; b != nil && b.stage == StageShut && b.until.IsZero() {
		b.until = time.Now()
		g.notify()
	}
}

// RemoteRecovered ends DeferProbe after the prober found that the API, or the
// account, works again. It closes the breaker and restarts the ramp from one
// attempt. It does not lift the credentials block but probes it: this worker's
// key was denied, too.
func (g *Gate) RemoteRecovered(name string) {
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
