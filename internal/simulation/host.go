package simulation

import (
	"time"

	"orderpost/internal/settle"
)

// host is one process: a worker, a producer, a person's command. It can be
// killed or frozen between any two of its steps, and lose its connection.
type host struct {
	w     *world
	e     *engine
	name  string
	q     *settle.Protocol
	procs []*proc

	dead   bool
	frozen time.Duration // until then
	// crashIn and freezeIn count the steps until that happens; 0 = never.
	crashIn, freezeIn int
	freezeFor         time.Duration
	restart           func() // what comes after a crash; nil = nothing

	up       bool // the connection
	link     int  // counts connections
	lastSent time.Duration
	faulty   bool          // its requests may be lost
	cut      bool          // the connection is dead, and nobody has noticed
	refused  time.Duration // when it heard that its results are refused; 0 = they are not
	node     int           // of the cluster, that it is connected to
}

func (w *world) newHost(name string) *host {
	h := &host{w: w, e: w.e, name: name, up: w.broker.up}
	w.hosts = append(w.hosts, h)
	if w.broker.followers != nil {
		h.node = w.e.rng.IntN(w.cfg.Replicas)
	}
	if !h.up {
		w.e.after(time.Second, h.reconnect)
	}
	return h
}

// open gives the process its queue, the real one on the modelled broker.
func (h *host) open() {
	cfg := h.w.protocol
	cfg.Worker = h.name
	h.q = settle.New(cfg, store{h.w, h}, runtime{h.e})
	h.q.StartClaims(h.w.cfg.AckWait, claimAnswers)
}

// claimAnswers is the subject under which the broker answers requests to extend
// a claim.
const claimAnswers = "claims"

func (h *host) left(p *proc) {
	for i, other := range h.procs {
		if other == p {
			last := len(h.procs) - 1
			h.procs[i] = h.procs[last]
			h.procs[last] = nil
			h.procs = h.procs[:last]
			return
		}
	}
}

// boundary is the place between two steps: the process may end or freeze here.
func (h *host) boundary(p *proc) {
	if h.crashIn > 0 {
		if h.crashIn--; h.crashIn == 0 {
			h.crash("killed")
			panic(killed{})
		}
	}
	if h.freezeIn > 0 {
		if h.freezeIn--; h.freezeIn == 0 {
			h.freeze(h.freezeFor)
		}
	}
	if h.frozen > h.e.at {
		h.e.nap(0)
	}
}

// crash ends the process: what it has sent is on its way, everything else is
// gone.
func (h *host) crash(how string) {
	if h.dead {
		return
	}
	h.e.trace.say(h.e, h.name, how, "", "")
	h.w.faults++
	h.dead, h.up = true, false
	h.link++
	for _, p := range append([]*proc(nil), h.procs...) {
		if p != h.e.running {
			p.kill()
		}
	}
	h.w.broker.dropPulls(h)
	if h.restart != nil {
		h.restart()
	}
}

// freeze stops the process for d. One that is frozen already does not wake
// earlier for it: else its procs, which sleep to the first end, would run before
// it hears what happened meanwhile, as no real process does.
func (h *host) freeze(d time.Duration) {
	if h.dead {
		return
	}
	h.w.faults++
	h.e.trace.say(h.e, h.name, "frozen", "", "for %s", d)
	h.frozen = max(h.frozen, h.e.at+d)
}

// disconnect breaks the connection for d. It is noticed at once, or when the
// process thaws.
func (h *host) disconnect(d time.Duration) {
	if h.dead || !h.up {
		return
	}
	h.up, h.cut = false, false
	h.link++
	h.w.broker.dropPulls(h)
	h.notice(func() {
		h.e.trace.say(h.e, h.name, "connection lost", "", "")
		h.q.Disconnected()
		for _, p := range h.procs {
			if p.onLink {
				n := p.wait
				h.e.after(0, func() { h.e.wake(p, n) })
			}
		}
		h.poke()
	})
	h.e.after(d, func() { h.reconnect() })
}

// partition lets the connection die without a sign: what is sent gets lost,
// until the process notices.
func (h *host) partition(unnoticed, d time.Duration) {
	if h.dead || !h.up || h.cut {
		return
	}
	h.w.faults++
	h.cut = true
	h.e.trace.say(h.e, h.name, "cut off", "", "notices in %s", unnoticed)
	link := h.link
	h.e.after(unnoticed, func() {
		if h.link == link && h.cut {
			h.disconnect(d)
		}
	})
}

// notice calls f when the process runs.
func (h *host) notice(f func()) {
	if h.dead {
		return
	}
	if h.frozen > h.e.at {
		h.e.after(h.frozen-h.e.at, func() { h.notice(f) })
		return
	}
	f()
}

func (h *host) reconnect() {
	switch {
	case h.dead || h.up:
		return
	case !h.w.broker.up:
		h.e.after(250*time.Millisecond, h.reconnect)
		return
	}
	h.notice(func() {
		if h.up || !h.w.broker.up {
			h.e.after(250*time.Millisecond, h.reconnect)
			return
		}
		h.up = true
		h.e.trace.say(h.e, h.name, "connected again", "", "")
		h.q.Reconnected()
	})
}

// poke wakes what sleeps under a context that has ended.
func (h *host) poke() {
	for _, p := range h.procs {
		if p.ctx != nil && p.ctx.Err() != nil {
			n := p.wait
			h.e.after(0, func() { h.e.wake(p, n) })
		}
	}
}

// request sends something to the broker, where effect happens, and waits for
// the answer. errLink: none came; the effect may have happened, or may yet.
func (h *host) request(effect func()) error {
	e, p := h.e, h.e.running
	h.boundary(p)
	if !h.up {
		e.nap(time.Millisecond)
		return errLink
	}
	answered := false
	n := e.newWait()
	p.wait, p.onLink = n, true
	link, lost := h.link, lossNone
	if h.faulty {
		lost = h.w.drawLoss()
	}
	if h.cut {
		lost = lossRequest
	}
	back := h.w.latency()
	if lost == lossRequest {
		e.trace.say(e, h.name, "request lost", "", "")
	} else {
		h.send(func() {
			effect()
			if lost == lossAnswer {
				e.trace.say(e, "broker", "answer lost", "", "to %s", h.name)
				return
			}
			e.after(back, func() {
				if h.link == link && !h.cut {
					answered = true
					e.wake(p, n)
				}
			})
		})
	}
	if lost != lossNone {
		e.after(requestTimeout, func() { e.wake(p, n) })
	}
	p.suspend()
	p.onLink = false
	h.boundary(p)
	if !answered {
		return errLink
	}
	return nil
}

// send lets arrive happen at the broker after a while, in the order of the
// sendings; not if the broker is gone by then.
func (h *host) send(arrive func()) {
	b := h.w.broker
	at := max(h.e.at+h.w.latency(), h.lastSent)
	h.lastSent = at
	life := b.life
	h.e.after(at-h.e.at, func() {
		if h.cut {
			return
		}
		if b.up && b.life == life {
			arrive()
		}
	})
}

// requestTimeout is queue's.
const requestTimeout = 5 * time.Second
