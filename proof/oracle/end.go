package oracle

import (
	"slices"

	"orderpost/internal/order"
)

// end checks the final state.
func (o *Oracle) end() {
	for _, seq := range sortedKeys(o.pending) {
		c := o.pending[seq]
		o.find(Settled, c.orderNo, nil, "intent %d is still in the queue", seq)
	}
	for _, seq := range sortedKeys(o.waiting) {
		p := o.waiting[seq]
		o.find(Settled, p.course.orderNo, []int{p.line}, "%s is still in the waiting room", p.intent)
	}
	for _, no := range sortedKeys(o.orders) {
		c := o.orders[no]
		if c.created > 0 && !c.known {
			o.find(True, no, nil, "created, but nobody published it")
		}
		for _, u := range c.unsettled {
			o.findUnsettled(c, u)
		}
		switch {
		case !c.must:
		case len(c.records) == 0:
			o.find(OneOutcome, no, []int{c.line}, "no record")
		default:
			o.endOrder(c)
		}
	}
}

func (o *Oracle) endOrder(c *course) {
	no := c.orderNo
	last := c.records[len(c.records)-1]
	rec := last.rec
	o.Counts.Orders++
	o.Counts.Outcomes[rec.Outcome()]++
	switch {
	case rec.Outcome() == order.OutcomeNone:
		o.find(OneOutcome, no, []int{last.line}, "no outcome, but a note (%s)", rec.Note)
	case rec.Settled < c.intents, rec.Settled != c.intents && !o.settings.Outside:
		o.find(OneOutcome, no, []int{last.line}, "%d intents were stored, %d are settled", c.intents, rec.Settled)
	}
	o.Counts.Created += c.created
	if c.created > 1 {
		o.Counts.CreatedTwice++
	}
	if rec.Outcome().Created() == "no" && c.created > 0 && (rec.By == "" || rec.Outcome() == order.OutcomeCancelled) && !o.saidNoTooSoon(c) {
		o.find(True, no, []int{last.line}, "%s, but the API created it", rec.Word)
	}
	if rec.By != "" && rec.Outcome() == order.OutcomeRejected && c.created > 0 && !o.settings.Outside && !c.postedLate() {
		o.find(True, no, []int{last.line}, "%s said that it does not exist, but the API created it", rec.By)
	}
	if rec.Outcome() == order.OutcomeAccepted && o.misnamed(c, rec.BodyHash) {
		o.find(True, no, []int{last.line}, "%s is accepted with a body that the API did not confirm, and it confirmed another", rec.IntentID)
	}
	o.endLetters(c, &last)
}

// misnamed reports whether the API has one body, confirmed that one to a worker that lived,
// and never another one.
func (o *Oracle) misnamed(c *course, body string) bool {
	if len(c.bodies) != 1 || c.bodies[body] || c.foreign || o.settings.Outside {
		return false
	}
	told := false
	for _, a := range c.posts {
		if a.recall && a.body == body {
			return false // the rules judged its answer again, and called it accepted
		}
		if !a.done || a.verdict != order.Accepted {
			continue
		}
		if a.body == body {
			return false
		}
		told = told || c.bodies[a.body] && o.process(a.process).ended == 0
	}
	return told
}

// saidNoTooSoon reports whether a person, or lookups, said that no order exists, and a worker whose claim
// had ended, which it could not know, sent an attempt that they cannot know of. Later
// deliveries relied on that word.
func (o *Oracle) saidNoTooSoon(c *course) bool {
	return c.postedLate() && slices.ContainsFunc(c.records, func(r observed) bool {
		return r.rec.By != "" && r.rec.Outcome() == order.OutcomeRejected || o.settings.Lookups && r.rec.Proven && !r.rec.Unsure
	})
}

// postedLate reports whether a worker whose claim had ended sent an attempt. No person can
// know of it.
func (c *course) postedLate() bool {
	return slices.ContainsFunc(c.posts, func(a *attempt) bool { return a.late })
}
