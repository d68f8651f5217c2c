package simulation

import (
	"math"
	"time"

	"orderpost/proof/oracle"
)

// The clocks of the broker's servers. A message's time is the wall clock of the server that
// leads its stream. That clock may be wrong, may be set, and may differ from the next leader's,
// so the time may go back from one sequence to the next. Sequences never do.
//
// The ack wait and the delay of a NAK are judged by the wall clock of the server that leads the
// consumer, at the latest each ack wait. So a clock that is set ahead ends all that runs, and one
// that is set back prolongs it.

// now returns the time that the leader of the streams gives to a message.
func (b *broker) now() time.Time { return b.w.e.now().Add(b.ahead[b.server]) }

// setClock sets the clock of one server.
func (b *broker) setClock(server int, by time.Duration) {
	b.w.faults++
	b.w.e.reached.strike(FaultBrokerClock, b.w.busiest())
	b.w.e.trace.say(b.w.e, "broker", "clock set", "", "server %d, by %s", server, by)
	b.ahead[server] += by
	if server != b.consumerOn || by < 0 {
		return
	}
	life, term := b.life, b.term
	b.w.e.after(time.Duration(mix(b.w.e.schedule.Seed^mix(uint64(b.w.e.at)))%uint64(b.w.cfg.AckWait)), func() { // it draws nothing from the streams
		if b.life != life || b.term != term {
			return
		}
		for _, seq := range sortedKeys(b.pending) {
			if p := b.pending[seq]; p != nil && p.due <= b.wall() {
				b.expired(seq, p, oracle.ByClock)
			}
		}
	})
}

// wall returns the wall clock of the server that leads the consumer, since the epoch.
func (b *broker) wall() time.Duration { return b.w.e.at + b.ahead[b.consumerOn] }

// none is the deadline of a message that has none.
const none time.Duration = math.MaxInt64

// expire ends the claim on a message, or its delay, when the wall clock says that it is due and
// the true time is not before a moment, unless the message gets another deadline before.
func (b *broker) expire(seq uint64, p *handed, from, due time.Duration, why string) {
	p.serial++
	p.due, p.why = due, why
	b.await(seq, p, from)
}

// await looks whether the deadline of a message is over, as soon as it should be.
func (b *broker) await(seq uint64, p *handed, from time.Duration) {
	serial, life := p.serial, b.life
	wait := max(p.due-b.wall(), from-b.w.e.at)
	if b.w.cfg.BrokerClocks > 0 {
		wait = min(wait, b.w.cfg.AckWait)
	}
	b.w.e.after(wait, func() {
		switch {
		case b.life != life || b.pending[seq] != p || p.serial != serial:
		case p.due > b.wall():
			b.await(seq, p, 0)
		default:
			b.expired(seq, p, p.why)
		}
	})
}

// expired ends the claim on a message, or its delay.
func (b *broker) expired(seq uint64, p *handed, why string) {
	if p.claim != 0 {
		b.w.e.trace.say(b.w.e, "broker", "claim ends", b.intents[seq].orderNo, "not acknowledged within %s: %s", b.w.cfg.AckWait, why)
		b.w.witness.released(p.claim, why)
		p.claim = 0
	}
	p.serial++
	p.since, p.due = b.wall(), none
	b.again = append(b.again, seq)
	b.serve()
}

// drawStep draws how far a server's clock is set.
func (w *world) drawStep() time.Duration {
	const day = 24 * time.Hour
	d := w.e.between(time.Millisecond, 10*time.Second)
	switch n := w.e.rng.IntN(10); {
	case n < 5:
	case n < 7:
		d = w.e.between(time.Minute, time.Hour)
	case n < 9:
		d = w.e.between(day, 40*day)
	default:
		d = w.e.between(365*day, 20*365*day)
	}
	if w.e.chance(0.6) {
		return -d
	}
	return d
}

// drawBrokerClocks draws how often servers' clocks are set, and where they start.
func (w *world) drawBrokerClocks() {
	for i := range w.broker.ahead {
		if w.e.chance(0.4) {
			w.broker.ahead[i] = w.drawStep()
		}
	}
}
