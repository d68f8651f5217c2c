package simulation

import (
	"strconv"
	"time"

	"orderpost/internal/settle"
	"orderpost/proof/oracle"
)

// host is one process: a worker, a producer or a person's command. Between any two of
// its steps it can be killed or frozen, or lose its connection.
type host struct {
	w     *world
	e     *engine
	name  string
	run   string // the same, and the number of this run of the program
	q     settle.Protocol
	procs []*proc

	stream *stream

	machine *clock   // nil: its clock is right
	refused []string // orders whose results the broker refused, as far as it heard

	dead   bool
	frozen time.Duration // until then
	// crashIn and freezeIn count the steps until the crash or the freeze; 0 = never.
	crashIn, freezeIn int
	freezeFor         time.Duration
	restart           func() // runs after a crash; may be nil

	up       bool // the connection
	link     int  // counts connections
	lastSent time.Duration
	faulty   bool // requests may be lost
	cut      bool // the connection is dead, but nobody has noticed
	node     int  // of the cluster, that it is connected to

	moving bool // a feeder moves intents
}

func (w *world) newHost(name string, id streamID) *host {
	h := &host{w: w, e: w.e, name: name, run: name + "." + strconv.Itoa(len(w.hosts)+1), up: w.broker.up, stream: w.e.stream(id)}
	w.hosts = append(w.hosts, h)
	if w.broker.followers != nil {
		h.node = w.e.rng.IntN(w.cfg.Replicas)
	}
	if !h.up {
		w.e.after(time.Second, h.reconnect)
	}
	return h
}

// open creates the process's protocol: the real code on the modelled broker.
func (h *host) open() {
	cfg := h.w.protocol
	cfg.Worker = h.name
	h.q = settle.New(cfg, store{h.w, h}, runtime{h.e, h})
	h.q.Claims.Start(h.w.cfg.AckWait, claimAnswers)
	h.hear()
}

// claimAnswers is the reply subject of requests to extend a claim.
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

// boundary separates two steps. The process may end or freeze here.
func (h *host) boundary(p *proc) {
	aside := p != nil && p.stream != nil // its steps are not counted
	if h.crashIn > 0 && !aside {
		if h.crashIn--; h.crashIn == 0 {
			h.crash("killed")
			panic(killed{})
		}
	}
	if h.freezeIn > 0 && !aside {
		if h.freezeIn--; h.freezeIn == 0 {
			h.freeze(h.freezeFor)
		}
	}
	if h.frozen > h.e.at {
		h.e.nap(0)
	}
}

// crash ends the process. Messages that it has sent still arrive.
func (h *host) crash(how string) {
	if h.dead {
		return
	}
	h.e.trace.say(h.e, h.name, how, "", "")
	if how != "stopped" {
		h.e.reached.strike(FaultCrash, h.step())
	}
	h.w.faults++
	h.die()
	h.up = false
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

// die marks the process as ended.
func (h *host) die() {
	h.dead = true
	h.w.witness.of(oracle.Ended, h)
}

// freeze stops the process for d. A second freeze does not shorten the first.
// Otherwise the process's procs would run before it learns what happened meanwhile,
// which no real process does.
func (h *host) freeze(d time.Duration) {
	if h.dead {
		return
	}
	h.w.faults++
	h.e.reached.strike(FaultFreeze, h.step())
	h.e.trace.say(h.e, h.name, "frozen", "", "for %s", d)
	h.frozen = max(h.frozen, h.e.at+d)
	h.w.witness.tell(oracle.Event{Kind: oracle.Frozen, Process: h.run, Until: oracle.Moment(h.frozen)})
}

// disconnect breaks the connection for d. The process notices at once, or when it
// thaws.
func (h *host) disconnect(d time.Duration) {
	if h.dead || !h.up {
		return
	}
	h.e.reached.strike(FaultCut, h.step())
	h.up, h.cut = false, false
	h.link++
	h.w.broker.dropPulls(h)
	h.notice(func() {
		h.e.trace.say(h.e, h.name, "connection lost", "", "")
		h.q.Worker.Disconnected()
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

// partition silently kills the connection. Messages are lost until the process
// notices.
func (h *host) partition(unnoticed, d time.Duration) {
	if h.dead || !h.up || h.cut {
		return
	}
	h.w.faults++
	h.e.reached.strike(FaultPartition, h.step())
	h.cut = true
	h.e.trace.say(h.e, h.name, "cut off", "", "notices in %s", unnoticed)
	link := h.link
	h.e.after(unnoticed, func() {
		if h.link == link && h.cut {
			h.disconnect(d)
		}
	})
}

// notice calls f once the process is not frozen.
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
		if !h.w.drops(Reconnect) {
			h.q.Worker.Reconnected()
		}
		h.hear()
		h.w.witness.of(oracle.Reconnected, h)
	})
}

// poke wakes the procs whose context has ended.
func (h *host) poke() {
	for _, p := range h.procs {
		if p.ctx != nil && p.ctx.Err() != nil {
			n := p.wait
			h.e.after(0, func() { h.e.wake(p, n) })
		}
	}
}

// request is ask for a request that the broker always answers.
func (h *host) request(effect func()) error {
	return h.ask(func() reaction { effect(); return answers })
}

// ask sends a request to the broker, which runs effect, and waits for the answer. It
// returns errLink if no answer came. The effect may have happened or may happen later.
func (h *host) ask(effect func() reaction) error {
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
			r := effect()
			if r == isSilent || r == storesSilently {
				e.after(requestTimeout, func() { e.wake(p, n) })
				return
			}
			if lost == lossAnswer {
				e.trace.say(e, "broker", "answer lost", "", "to %s", h.name)
				return
			}
			e.after(back, func() {
				if h.link == link && !h.cut {
					answered = r != refuses
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

// send runs arrive at the broker after a delay, in the order of the calls. It does
// nothing if the broker is gone by then.
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
