package queue

import (
	"sync"
	"time"
)

// ends tells whether a stream gave a sequence out again, by the confirmations of one
// program's writes. A write that is sent after another one was confirmed gets a higher
// sequence, unless the broker has lost the end of the stream meanwhile. A look at the
// stream's last sequence misses that once the writes of a busy fleet have filled the end up.
type ends struct {
	mu sync.Mutex
	era
	last  uint64 // the highest confirmed sequence, or the last one that was given again
	again uint64 // the highest confirmed sequence at a write that got no higher one; 0 = none did
}

// era is one life of a stream: from its creation, or from the last loss of its end that a person
// accepted (Repair).
type era struct {
	created  time.Time
	accepted string
}

func (a era) same(b era) bool { return a.created.Equal(b.created) && a.accepted == b.accepted }

// reach is how far a stream had come, as one program knew.
type reach struct {
	era
	last uint64
}

func (e *ends) reached() reach {
	e.mu.Lock()
	defer e.mu.Unlock()
	return reach{e.era, e.last}
}

// stored notes that a write got seq. before is what reached returned before it was sent.
func (e *ends) stored(before reach, seq uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.same(before.era) {
		return
	}
	if seq > before.last {
		e.last = max(e.last, seq)
		return
	}
	e.again = max(e.again, before.last)
	e.last = seq // what comes now is compared with the stream as it is
}

// look returns again, and forgets what belongs to another era than now.
func (e *ends) look(now era) (again uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.same(now) {
		e.era, e.last, e.again = now, 0, 0
	}
	return e.again
}
