package notify

import (
	"sync/atomic"

	"orderpost/internal/ops"
)

// classes are the kinds of answers that are counted, by their first digit.
var classes = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}

// counters are what Stats is made of.
type counters struct {
	attempts [len(classes)]atomic.Uint64
	backlog  atomic.Uint64
	session  atomic.Pointer[session] // nil = this process does not send
}

// Stats returns the numbers for metrics. It is safe for concurrent use, and for nil: then
// every number is zero.
func (s *Sender) Stats() ops.Notify {
	c := new(counters)
	if s != nil {
		c = &s.stats
	}
	n := ops.Notify{Attempts: make(map[string]uint64, len(classes))}
	for i := range c.attempts {
		n.Attempts[classes[i]] = c.attempts[i].Load()
	}
	now := c.session.Load()
	if now == nil {
		return n
	}
	n.Sends, n.Backlog = true, c.backlog.Load()
	_, n.Oldest = now.window.position()
	n.Aside, n.Parked = now.asides.counts()
	return n
}
