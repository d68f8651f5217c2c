package ops

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Notify are the numbers of a process that sends outcomes to a receiver, or waits to take
// over.
type Notify struct {
	// Sends says that it is the one process of the fleet that sends. Only that one knows the
	// numbers below Attempts.
	Sends bool
	// Attempts counts the attempts by the class of their answer, such as 2xx or none.
	Attempts map[string]uint64
	// Backlog is how many places of the results lie behind the position.
	Backlog uint64
	// Oldest is when the oldest outcome was stored that is not delivered; zero = none.
	Oldest time.Time
	// Aside counts the events that are tried again beside the others, Parked those that wait
	// for a person.
	Aside, Parked int
}

// RegisterNotify registers the metrics of webhooks with reg. state returns the current
// numbers. It is called at every scrape and must be quick and safe for concurrent use.
func RegisterNotify(reg prometheus.Registerer, state func() Notify) {
	reg.MustRegister(collector(func(to scrape) { state().export(to) }))
}

func (n Notify) export(to scrape) {
	to.gauge("notify_sends", "1 in the one process of the fleet that sends outcomes to the receiver, 0 in those that wait to take over.", number(n.Sends))
	for class, count := range n.Attempts {
		to.counter("notify_attempts_total", "Attempts to send an event to the receiver, by the class of its answer; none: there was no answer.", count, "status", class)
	}
	if !n.Sends {
		return
	}
	to.gauge("notify_backlog", "Places of the results behind the position: at least the number of outcomes that the receiver does not have; only in the process that sends.", float64(n.Backlog))
	to.time("notify_oldest_timestamp_seconds", "When the oldest outcome was stored that the receiver does not have, and that is not aside; none if there is none, and only in the process that sends.", n.Oldest)
	to.gauge("notify_aside", "Events that the receiver refuses while it takes others, and that are tried again beside them; only in the process that sends.", float64(n.Aside))
	to.gauge("notify_parked", "Events that the receiver refused for good, and that wait for a person; only in the process that sends.", float64(n.Parked))
}
