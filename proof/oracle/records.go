package oracle

import (
	"slices"

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
	c.records = append(before, observed{e.At, e.until(), e.Line, e.Seq, rec, e.Process, e.Claim, o.delayOver(c, e), c.pending == 0, o.writtenLate(c, e)})
	if len(before) > 0 && whole {
		o.checkTransition(c, &before[len(before)-1], e)
	}
	if !takenOver(before, rec) {
		o.checkEvidence(c, rec)
		o.checkWriter(c, e)
	}
	if whole {
		o.checkFacts(c, e, prev)
		if !o.settings.Outside {
			o.checkNamed(c, e, prev)
		}
	}
}

// checkWriter checks that an outcome is not written long after its writer's claim was
// over. An acceptance may be (R1). From outside nobody sees when a claim ends.
func (o *Oracle) checkWriter(c *course, e *Event) {
	rec := e.Record
	if o.settings.Outside || rec.By != "" || rec.Outcome() == order.OutcomeNone || rec.Outcome() == order.OutcomeAccepted || c.pending == 0 {
		return
	}
	own := o.claims[e.Claim]
	if own != nil && own.ended && own.why == ByTime && !o.unaware(c, e) {
		o.find(OneClaim, c.orderNo, []int{own.line}, "%s writes %s, though %s", e.Process, rec.Word, own.why)
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
	c.unseen, c.unsettled = true, nil
	o.Counts.Unseen++
	return false
}

// takenOver reports whether rec only repeats an earlier outcome, for an intent with
// the accepted body or for one that was not sent. Records of other intents may lie
// between: a refusal repeats what it read, and a withdrawal may come first.
func takenOver(before []observed, rec *order.Record) bool {
	return slices.ContainsFunc(before, func(b observed) bool {
		return b.rec.SettledAt.Equal(rec.SettledAt) &&
			(b.rec.IntentID == rec.IntentID || rec.Outcome() == order.OutcomeAccepted || rec.Outcome() == order.OutcomeUnknown)
	})
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
	if d.claim == e.Claim {
		return false
	}
	return o.unaware(c, e)
}

// unaware reports whether the writer of a record could not know that its claim had ended.
func (o *Oracle) unaware(c *course, e *Event) bool {
	if o.justWoke(e.Process) {
		return true
	}
	own := o.claims[e.Claim]
	// or a former owner returned the message, or the consumer's leader or its clock changed
	return own != nil && (own.taken || own.untold() || o.bothWrong(e.Process, own.at))
}

// untold reports whether the broker ended a claim that by its owner's clocks still ran, and told nobody.
func (c *claim) untold() bool { return c.why == ByLeader || c.why == ByClock }

// checkTransition checks that an outcome changes only for an allowed reason.
func (o *Oracle) checkTransition(c *course, before *observed, e *Event) {
	prev, rec := before.rec, e.Record
	was, is := prev.Outcome(), rec.Outcome()
	if was == order.OutcomeNone || was == is || is == order.OutcomeAccepted {
		return
	}
	byPerson := !slices.Equal(rec.Interventions, prev.Interventions) || rec.By != prev.By
	switch {
	case byPerson:
	case (was == order.OutcomeCancelled || prev.Proven && !prev.Unsure) && is == order.OutcomeUnknown && rec.Unsure && order.LaterTimestamp(prev.LastTimestamp, rec.LastTimestamp) != prev.LastTimestamp: // its worker had posted it
	case was == order.OutcomeAccepted:
		o.find(Stays, c.orderNo, []int{before.line}, "accepted became %s", rec.Word)
	case rec.IntentID == prev.IntentID && is == order.OutcomeUnknown && (before.paused || o.unaware(c, e)):
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
		if rec.Proven && o.settings.Lookups {
			return // a lookup said so
		}
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
	if ended := c.lost + c.tookDown; ended < settle.PoisonAfter && !o.settings.Outside {
		o.find(Poison, c.orderNo, nil, "poison, though only %d deliveries ended without a report", ended)
	}
}

// checkReason checks that some attempt is unsure or may have been made.
func (o *Oracle) checkReason(c *course, rec *order.Record) {
	if c.lost > 0 || c.tookDown > 0 || c.forgot || o.killed && o.settings.Outside {
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
	switch {
	case c.unseen:
	case o.settings.Outside: // a record that nobody saw may say so; its successor will tell
		c.unsettled = append(c.unsettled, unsettled{e.Intent, e.Line})
	default:
		o.findUnsettled(c, unsettled{e.Intent, e.Line})
	}
}

// unsettled is an intent that was acknowledged before any record was seen that settles it.
type unsettled struct {
	intent string
	line   int // of the acknowledgement
}

func (o *Oracle) findUnsettled(c *course, u unsettled) {
	o.find(AckLast, c.orderNo, []int{u.line}, "%s was acknowledged, and no record says what became of it", u.intent)
}
