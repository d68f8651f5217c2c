package gate

import "time"

// maxProbeDelay is the longest time between two probes of a denied key.
const maxProbeDelay = 5 * time.Minute

// KeySuspected shuts the gate after the first denial of the key in use: the
// account is asked next. Where the credentials' block stands already, it stays
// as it is.
func (g *Gate) KeySuspected(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.blocks[BlockCredentials] == nil {
		g.shut(BlockCredentials, reason, jittered(g.cfg.ProbeDelay))
	}
}

// NextKey shuts the gate because the key that was in use is bad; the account is
// soon asked with the next one.
func (g *Gate) NextKey(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut(BlockCredentials, reason, jittered(g.cfg.ProbeDelay))
}

// NoKeyLeft shuts the gate because every key is bad: the account is asked less
// and less often.
func (g *Gate) NoKeyLeft(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shutLonger(BlockCredentials, reason, g.cfg.ProbeDelay, maxProbeDelay)
}

// KeysChanged has a denied credential probed at once: there are other keys now.
func (g *Gate) KeysChanged() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b := g.blocks[BlockCredentials]; b != nil && b.stage == StageShut {
		b.until = time.Now()
		g.notify()
	}
}

// Probed ends a probe of the account (tick asks for one). answered: one order may
// try each block that waited for it; a credential that the account denied is shut
// again by then. detail says what came back.
func (g *Gate) Probed(answered bool, detail string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name, b := range g.blocks {
		switch {
		case b.stage != StageProbe:
		case answered:
			g.try(name)
		case name == BlockBreaker:
			// The next look costs the API one request without an order, so it
			// does not wait any longer than this one did.
			g.shut(name, g.stillFailing("the account was asked", detail, ""), jittered(g.cfg.BreakerOpen))
		default:
			g.shutLonger(name, b.reason, g.cfg.ProbeDelay, maxProbeDelay)
		}
	}
}
