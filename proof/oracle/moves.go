package oracle

import (
	"slices"
	"strings"

	"orderpost/internal/order"
)

// place is an intent in the waiting room.
type place struct {
	course *course
	intent string
	body   string // its hash
	line   int
}

// waited notes an intent that a producer put into the waiting room.
func (o *Oracle) waited(e *Event) {
	c := o.course(e.OrderNo)
	c.known, c.must = true, true
	c.given(e.Intent)
	o.keep(c, e)
	o.waiting[e.Seq] = &place{c, e.Intent, e.Body, e.Line}
}

// left checks an intent that leaves the waiting room: the queue has or had it, or a
// person withdrew it.
func (o *Oracle) left(e *Event) {
	p := o.waiting[e.Seq]
	if p == nil {
		return
	}
	delete(o.waiting, e.Seq)
	withdrawn := slices.ContainsFunc(p.course.records, func(r observed) bool {
		return r.rec.Knows(p.intent, p.body) || r.rec.Knows(order.BodyID(p.intent, p.body), p.body)
	})
	if p.course.queued[p.intent] == 0 && !withdrawn {
		o.find(Moved, p.course.orderNo, []int{p.line}, "%s removes %s from the waiting room, and it was never in the queue", e.Process, p.intent)
	}
}

// given counts a submission by a producer.
func (c *course) given(id string) {
	if c.submitted == nil {
		c.submitted = make(map[string]int)
	}
	c.submitted[id]++
}

// checkMoved checks that an intent that came out of the waiting room is not in the
// queue more often than producers submitted it.
func (o *Oracle) checkMoved(c *course, e *Event) {
	if c.queued == nil {
		c.queued = make(map[string]int)
	}
	given := strings.TrimSuffix(e.Intent, order.BodyID("", e.Body))
	had := func(s submission) bool { // it was in the queue, or withdrawn
		return s.id == given && s.body != e.Body && (s.queued || slices.ContainsFunc(c.records, func(r observed) bool { return r.rec.Knows(s.id, s.body) }))
	}
	if given != e.Intent && !slices.ContainsFunc(c.copies, had) {
		o.find(Moved, c.orderNo, nil, "%s is moved under another ID than its own, and no other body had that one", e.Intent)
	}
	c.queued[given]++
	if e.Waited == 0 {
		c.given(given)
		return
	}
	o.Counts.Moved++
	switch {
	case c.queued[given] <= c.submitted[given], o.settings.Outside:
	case e.Paused: // the feeder was frozen between the last look at its term and the socket
		o.Counts.MovedTwice++
	default:
		o.find(Moved, c.orderNo, nil, "%s was submitted %d times and is in the queue for the %d. time", e.Intent, c.submitted[given], c.queued[given])
	}
}
