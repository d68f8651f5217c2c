package oracle

import (
	"slices"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// mark is a person's cancellation of an order_no.
type mark struct {
	version         uint64
	queued, waiting uint64 // the last sequences that it covers
}

// heard is that a process knows the marks up to a version.
type heard struct {
	version uint64
	at      Moment
}

// marked notes a cancellation that the broker stored.
func (o *Oracle) marked(e *Event) {
	c := o.course(e.OrderNo)
	c.marks = append(c.marks, mark{e.Count, e.Seq, e.Waited})
}

// covers reports whether a mark covers a copy of an intent.
func (m mark) covers(s *submission) bool {
	if s.waited > 0 {
		return s.waited <= m.waiting
	}
	return s.seq <= m.queued
}

// checkCancelled checks that a person asked for what is recorded as cancelled.
func (o *Oracle) checkCancelled(c *course, rec *order.Record) {
	if rec.Outcome() != order.OutcomeCancelled || o.settings.Outside || settle.AsksOnly(rec.IntentID) { // the doubt that it asks about was over
		return
	}
	if !slices.ContainsFunc(c.copies, func(s submission) bool {
		return s.named(rec.IntentID) && slices.ContainsFunc(c.marks, func(m mark) bool { return m.covers(&s) })
	}) {
		o.find(Cancelled, c.orderNo, nil, "%s is cancelled, and nobody cancelled it", rec.IntentID)
	}
}

// checkWithdrawn checks that a process does not post what it knew to be cancelled when it
// passed the gate, unless something put the order in doubt.
func (o *Oracle) checkWithdrawn(c *course, a *attempt, before []*attempt) {
	if c.lost > 0 || c.forgot || slices.ContainsFunc(before, (*attempt).unsure) {
		return
	}
	if n := len(c.records); n > 0 && c.records[n-1].rec.Unsure {
		return
	}
	for _, m := range c.marks {
		if !slices.ContainsFunc(c.copies, func(s submission) bool { return s.seq == a.seq && s.queued && m.covers(&s) }) {
			continue
		}
		for _, h := range o.process(a.process).heard {
			if h.version >= m.version && h.at < a.gate {
				o.find(Cancelled, c.orderNo, nil, "%s posts %s, and knew at %s that it was cancelled", a.process, a.intent, h.at)
				return
			}
		}
	}
}
