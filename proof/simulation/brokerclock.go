package simulation

import "time"

// The clocks of the broker's servers. A message's time is the wall clock of the server that
// leads its stream. That clock may be wrong, may be set, and may differ from the next leader's,
// so the time may go back from one sequence to the next. Sequences never do.

// now returns the time that the leader of the streams gives to a message.
func (b *broker) now() time.Time { return b.w.e.now().Add(b.ahead[b.server]) }

// setClock sets the clock of one server.
func (b *broker) setClock(server int, by time.Duration) {
	b.w.faults++
	b.w.e.reached.strike(FaultBrokerClock, b.w.busiest())
	b.w.e.trace.say(b.w.e, "broker", "clock set", "", "server %d, by %s", server, by)
	b.ahead[server] += by
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
