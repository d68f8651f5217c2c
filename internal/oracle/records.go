package oracle

import (
	"fmt"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// recorded checks a record when the broker stores it.
func (o *Oracle) recorded(e *Event) {
	rec := e.Record
	c := o.course(e.OrderNo)
	o.Counts.Records++
	before := c.records
	var prev *order.Record
	if len(before) > 0 {
		prev = before[len(before)-1].rec
	}
	whole := o.checkChain(c, e)
	c.records = append(before, observed{e.At, e.until(), e.Line, e.Seq, rec, e.Process, c.pending == 0, o.writtenLate(c, e)})
	if len(before) > 0 && whole {
		o.checkTransition(c, &before[len(before)-1], rec)
	}
	if rec.Dropped && (prev == nil || !prev.Dropped) && !o.settings.Outside {
		o.checkDropped(c, rec)
	}
	if !takenOver(prev, rec) {
		o.checkEvidence(c, rec)
	}
}

// checkChain checks that the record replaces the one before, and reports whether that
// one is in the history.
func (o *Oracle) checkChain(c *course, e *Event) (whole bool) {
	if e.Replaces == nil {
		return true
	}
	var last observed
	if len(c.records) > 0 {
		last = c.records[len(c.records)-1]
	}
	switch {
	case *e.Replaces == last.seq:
		return true
	case *e.Replaces < last.seq:
		o.find(Conditional, c.orderNo, []int{last.line}, "the broker stored %s, whose writer had read record %d, over record %d", e.Record.Word, *e.Replaces, last.seq)
		return true
	}
	c.unseen = true
	o.Counts.Unseen++
	return false
}

// checkDropped checks that the letter that a person dropped is the order's.
func (o *Oracle) checkDropped(c *course, rec *order.Record) {
	n := len(rec.Interventions)
	if n > 0 && c.letter != nil && rec.Interventions[n-1].Did != fmt.Sprint("dropped dead letter ", c.letter.seq) {
		o.find(Letters, c.orderNo, []int{c.letter.line}, "%s, but letter %d is filed", rec.Interventions[n-1].Did, c.letter.seq)
	}
}

// takenOver reports whether rec only repeats an earlier outcome, for an intent with
// the accepted body or for one that was not sent.
func takenOver(prev, rec *order.Record) bool {
	return prev != nil && prev.SettledAt.Equal(rec.SettledAt) &&
		(prev.IntentID == rec.IntentID || rec.Outcome() == order.OutcomeAccepted || rec.Outcome() == order.OutcomeUnknown)
}

// writtenLate computes observed.paused.
func (o *Oracle) writtenLate(c *course, e *Event) bool {
	d := o.handed[c.pending]
	if c.pending == 0 || d == nil {
		return false
	}
	if o.settings.Outside { // it was decided before the new owner had the order, and took long to arrive
		return d.process != e.Process && d.at >= o.moment(e.Record.SettledAt)-Moment(o.settings.AckWait/10)
	}
	if d.count <= e.Record.Delivered {
		return false
	}
	frozen := o.process(e.Process).frozen
	return frozen > 0 && o.now-frozen <= Moment(o.settings.AckWait/10) || o.wasTaken(c, e) || o.bothWrong(e.Process, o.now-Moment(2*o.settings.AckWait))
}

// wasTaken reports whether a former owner returned the message of the writer's claim.
func (o *Oracle) wasTaken(c *course, e *Event) bool {
	for _, k := range o.claims {
		if k.taken && k.process == e.Process && k.course == c && k.count == e.Record.Delivered {
			return true
		}
	}
	return false
}

// checkTransition checks that an outcome changes only for an allowed reason.
func (o *Oracle) checkTransition(c *course, before *observed, rec *order.Record) {
	prev := before.rec
	was, is := prev.Outcome(), rec.Outcome()
	if was == order.OutcomeNone || was == is || is == order.OutcomeAccepted {
		return
	}
	byPerson := len(rec.Interventions) > len(prev.Interventions) || rec.By != prev.By
	switch {
	case byPerson:
	case was == order.OutcomeAccepted:
		o.find(Stays, c.orderNo, []int{before.line}, "accepted became %s", rec.Word)
	case rec.IntentID == prev.IntentID && is == order.OutcomeUnknown && before.paused:
		o.Counts.LateOutcomes++
	case rec.IntentID == prev.IntentID:
		o.find(Stays, c.orderNo, []int{before.line}, "%s: %s became %s", rec.IntentID, prev.Word, rec.Word)
	}
}

// checkEvidence checks that an outcome claims no more than what happened.
func (o *Oracle) checkEvidence(c *course, rec *order.Record) {
	if rec.By != "" {
		return
	}
	if rec.Reason == "poison" && rec.Outcome() != order.OutcomeNone { // the outcome is usually unknown
		o.checkSuspects(c, rec)
	}
	switch rec.Outcome() {
	case order.OutcomeAccepted:
		if c.created == 0 && !c.foreign {
			o.find(True, c.orderNo, nil, "accepted, but nothing was created")
		}
	case order.OutcomeRejected, order.OutcomeExhausted:
		for _, a := range c.posts {
			if a.intent == rec.IntentID {
				return
			}
		}
		o.find(True, c.orderNo, nil, "%s is %s, but was never posted", rec.IntentID, rec.Word)
	case order.OutcomeUnknown:
		o.checkReason(c, rec)
	}
}

// checkSuspects checks in the notes that the order was handled alone often enough.
func (o *Oracle) checkSuspects(c *course, rec *order.Record) {
	suspects := 0
	for _, r := range c.records {
		if r.rec.Outcome() == order.OutcomeNone && r.rec.IntentID == rec.IntentID {
			suspects = max(suspects, r.rec.Suspects)
		}
	}
	if suspects < settle.PoisonAfter && !c.unseen {
		o.find(Poison, c.orderNo, nil, "poison after %d suspect notes", suspects)
	}
}

// checkReason checks that some attempt is unsure or may have been made.
func (o *Oracle) checkReason(c *course, rec *order.Record) {
	if c.lost > 0 || c.tookDown > 0 || o.killed { // a restarted broker may have forgotten a delivery
		return
	}
	for _, a := range c.posts {
		if a.unsure() || a.verdict == order.Duplicate {
			return
		}
	}
	o.find(Reason, c.orderNo, nil, "%s is unknown, though every attempt was answered and no worker was lost", rec.IntentID)
}

// checkAcknowledged checks that an intent that a worker acknowledged has an outcome
// (R4). A record that may have been stored before counts.
func (o *Oracle) checkAcknowledged(c *course, e *Event) {
	for _, r := range c.records {
		if r.rec.Settles(e.Intent) {
			return
		}
	}
	if !c.unseen {
		o.find(AckLast, c.orderNo, nil, "%s was acknowledged, and no record says what became of it", e.Intent)
	}
}
