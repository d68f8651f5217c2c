package notify

import (
	"sync/atomic"
	"time"
)

// Classes are the kinds of answers that Stats counts, by their first digit; none = there was
// no answer.
var Classes = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

// Stats are the numbers of one process.
type Stats struct {
	// Sends says that this process is the fleet's sender. The rest but Attempts is zero in
	// one that waits to take over.
	Sends bool
	// Attempts counts the attempts by Classes.
	Attempts [len(Classes)]uint64
	// Backlog is how many places of the results come after the position, which is at least
	// the number of outcomes that are not delivered.
	Backlog uint64
	// Oldest is when the oldest outcome was stored that is not delivered; zero = there is none.
	Oldest time.Time
	// Aside is how many events are tried again beside the others, Parked how many wait for a
	// person.
	Aside, Parked int
}

// counters are what Stats is made of.
type counters struct {
	attempts [len(Classes)]atomic.Uint64
	backlog  atomic.Uint64
	session  atomic.Pointer[session] // nil = this process does not send
}

func (c *counters) read() (s Stats) {
	for i := range c.attempts {
		s.Attempts[i] = c.attempts[i].Load()
	}
	now := c.session.Load()
	if now == nil {
		return s
	}
	s.Sends, s.Backlog = true, c.backlog.Load()
	_, s.Oldest = now.window.position()
	s.Aside, s.Parked = now.asides.counts()
	return s
}
