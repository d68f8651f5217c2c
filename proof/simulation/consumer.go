package simulation

import (
	"time"

	"orderpost/proof/oracle"
)

// A change of leadership of the workers' consumer. It has the phases of leader.go. No
// connection breaks, so nobody tells the workers.
//
// A leader of nats-server (2.15) counts the ack wait from the delivery, but replicates
// the time at which the message was stored. Only a progress request and a delayed NAK
// replicate a true time. A new leader looks at the pending messages after 0.5 to 1.5 s
// and redelivers what its replicated times say is over. It answers the progress requests
// of former owners, too, and they extend the present owner's claim.

// changeConsumer lets the leader of the workers' consumer stop.
func (b *broker) changeConsumer(c change) {
	if b.followers == nil || !b.up {
		return
	}
	e := b.w.e
	b.w.faults++
	e.reached.strike(FaultConsumerLeader, b.w.busiest())
	b.consumer = leader{e.at + c.stops, e.at + c.stops + c.silent}
	b.term++
	term, life := b.term, b.life
	b.pulls = nil // the next leader does not know them
	for _, p := range b.pending {
		p.serial++ // the timers end with the leader
		p.due = none
	}
	e.trace.say(e, "broker", "consumer's leader", "", "stops within %s; the next one leads %s later", c.stops, c.silent)
	e.after(c.stops+c.silent, func() {
		if b.term == term && b.life == life {
			b.leadConsumer()
		}
	})
}

// leadsConsumer reports whether somebody leads the workers' consumer.
func (b *broker) leadsConsumer() bool { return b.w.e.at >= b.consumer.silent }

// stopping reports whether the leader that stops still does something, with this
// probability.
func (b *broker) stopping(p float64) bool {
	return b.w.e.at < b.consumer.stops && b.w.e.chance(p)
}

// leadConsumer makes another server the leader of the workers' consumer. It knows of the
// deliveries what was replicated, and nothing of what waits to be redelivered.
func (b *broker) leadConsumer() {
	e, wait := b.w.e, b.w.cfg.AckWait
	e.trace.say(e, "broker", "consumer's leader", "", "is another server")
	check := e.at + min(wait, e.between(500*time.Millisecond, 1500*time.Millisecond))
	b.again, b.consumerOn = nil, int(mix(e.schedule.Seed^mix(uint64(e.at)+1))%uint64(len(b.ahead))) // it draws nothing from the streams
	for _, seq := range sortedKeys(b.pending) {
		p := b.pending[seq]
		b.expire(seq, p, check, p.replicated+wait, oracle.ByLeader)
	}
	b.serve()
}
