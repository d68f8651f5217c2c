package oracle

import (
	"slices"
	"time"

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
	if rec.Outcome().Created() == "no" && c.created > 0 && (rec.By == "" || rec.Outcome() == order.OutcomeCancelled) && !c.saidNoTooSoon() {
		o.find(True, no, []int{last.line}, "%s, but the API created it", rec.Word)
	}
	if rec.By != "" && rec.Outcome() == order.OutcomeRejected && c.created > 0 && !o.settings.Outside && !c.postedLate() {
		o.find(True, no, []int{last.line}, "%s said that it does not exist, but the API created it", rec.By)
	}
	if rec.Outcome() == order.OutcomeAccepted && o.misnamed(c, rec.BodyHash) {
		o.find(True, no, []int{last.line}, "%s is accepted with a body that the API did not confirm, and it confirmed another", rec.IntentID)
	}
	if c.unheld != nil && o.process(c.unheldBy).ended == 0 {
		o.find(Letters, no, []int{c.unheld.line}, "%s removed the letter of %s, which was refused", c.unheldBy, c.unheld.intent)
	}
	letter := c.letter
	switch {
	case c.misfiled:
		o.Counts.Misfiled++
	case rec.NeedsLetter() && letter == nil:
		o.find(Letters, no, []int{last.line}, "%s without a letter", rec.Word)
	case rec.NeedsLetter() && letter.intent != rec.IntentID && rec.Listed(letter.intent) == nil:
		o.find(Letters, no, []int{last.line, letter.line}, "%s is %s, but the letter is about %s", rec.IntentID, rec.Word, letter.intent)
	case rec.NeedsLetter() && letter.outcome != rec.Outcome():
		o.find(Letters, no, []int{last.line, letter.line}, "%s, but its letter says %s", rec.Word, letter.outcome)
	case letter != nil && letter.conflict && rec.Outcome() == order.OutcomeAccepted && letter.body != "" && letter.body == rec.BodyHash && rec.ConflictOf(letter.intent) == nil:
		o.find(Letters, no, []int{last.line, letter.line}, "the letter of %s is a conflict's, and its body is the accepted one", letter.intent)
	case letter == nil || letter.conflict || !done(rec):
	case rec.Outcome() == order.OutcomeRejected && rec.Listed(letter.intent) != nil: // nobody said what becomes of this body
	case o.leftover(c):
		o.Counts.Leftovers++
	default:
		o.find(Letters, no, []int{last.line, letter.line}, "%s, but the letter of %s is left", rec.Word, letter.intent)
	}
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

// saidNoTooSoon reports whether a person said that no order exists, and a worker whose claim
// had ended, which it could not know, sent an attempt that she cannot know of. Later
// deliveries relied on her word.
func (c *course) saidNoTooSoon() bool { return c.saidNo(0) && c.postedLate() }

// postedLate reports whether a worker whose claim had ended sent an attempt. No person can
// know of it.
func (c *course) postedLate() bool {
	return slices.ContainsFunc(c.posts, func(a *attempt) bool { return a.late })
}

// leftover reports whether a late acceptance, or a person's word, left a dead letter behind:
// whoever had to remove the letter was lost before. That is the writer of the record, or of
// the letter if it was filed later. No message brings a worker back to it. The audit shows
// such a letter, and replaying it sends nothing. Whoever removes an intent that the broker
// passed over has to remove the letter.
func (o *Oracle) leftover(c *course) bool {
	if c.letter.at < c.passedOver {
		return false
	}
	first := len(c.records)
	for first > 0 && done(c.records[first-1].rec) {
		first--
	}
	if c.letter.at > c.records[first].at {
		return o.lost(c.letter.process, c.letter.at)
	}
	return slices.ContainsFunc(c.records[first:], func(r observed) bool { return o.lost(r.process, r.at) })
}

// lost reports whether a process was lost before it had the time to remove a letter.
func (o *Oracle) lost(process string, since Moment) bool {
	ended := o.process(process).ended
	return ended > 0 && ended <= since+removal
}

// done reports whether nothing is left to do about an order: it was accepted, or a person
// settled it.
func done(r *order.Record) bool { return r.Outcome() == order.OutcomeAccepted || r.Resolved() }

// removal is how long the removal of a letter may take: requests get no answer, and a
// person comes back to it.
const removal = Moment(time.Minute)
