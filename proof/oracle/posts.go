package oracle

import (
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// posted checks a request when it is sent.
func (o *Oracle) posted(e *Event) {
	c := o.course(e.OrderNo)
	p := o.process(e.Process)
	a := &attempt{line: e.Line, intent: e.Intent, seq: e.Seq, process: e.Process, claim: e.Claim, gate: e.Gate, signed: e.Signed,
		sent: e.At, stamp: e.Stamp, reading: e.Reading, body: e.Body, fresh: !p.reconnected}
	o.attempts[e.Attempt] = a
	o.Counts.Posts++
	before := c.posts
	c.posts = append(before, a)
	if own := o.claims[a.claim]; own != nil {
		o.checkOwner(c, a, own)
		o.checkRecord(c, a, own, e.until())
	}
	o.checkWithdrawn(c, a, before)
	if settle.AsksOnly(a.intent) {
		o.find(Own, c.orderNo, nil, "%s posts for %s, which only asks whether the API has the order", a.process, a.intent)
	}
	if o.full {
		for _, no := range sortedKeys(p.refused) {
			if at := p.refused[no]; at > o.fullSince && a.gate > at {
				o.find(Storage, c.orderNo, nil, "%s posts, though it heard at %s that the result of %s is refused", a.process, at, no)
				break
			}
		}
	}
	for _, b := range before {
		if a.stamp != 0 && b.stamp == a.stamp {
			// The worker before lost its report, so no record names its timestamp. Then
			// clocks that differ, or that jumped, may come to the same millisecond.
			// And a process that wakes between its last check and the socket, or whose claim
			// passed to another one unheard, does not know of an attempt in the same millisecond.
			jumped := o.jumped(a) || o.jumped(b)
			if a.claim != b.claim && (a.unaware || b.unaware || jumped) && (o.byItsClock(a) || o.byItsClock(b) || c.followsShared(a)) && (o.justWoke(a.process) || !c.recorded(a, b)) {
				a.shared = true
				o.Counts.SameStamps++
				break
			}
			o.find(Stamped, c.orderNo, []int{b.line}, "%s posts with the timestamp %d, and so did %s before", a.process, a.stamp, b.process)
			break
		}
	}
	if len(before) == 0 {
		return
	}
	o.checkExplained(c, a, before[len(before)-1])
	if o.settings.Policy == order.Park {
		o.checkParked(c, a, before)
	}
}

// arrived checks a request that arrived at the API.
func (o *Oracle) arrived(e *Event) {
	c := o.course(e.OrderNo)
	if c.stamps == nil {
		c.stamps = make(map[int64]int)
	}
	if before, twice := c.stamps[e.Stamp]; twice {
		o.find(Stamped, c.orderNo, []int{before}, "the API got the timestamp %d twice", e.Stamp)
	}
	c.stamps[e.Stamp] = e.Line
}

// checkAbsent checks that an order which is created was not proven absent after its request was sent.
func (o *Oracle) checkAbsent(c *course, e *Event) {
	a := o.attempts[e.Attempt]
	if a == nil || a.paused { // sent in the documented pause, with a timestamp of when its process woke: checkOwner counts it
		return
	}
	for i := range c.records {
		if r := &c.records[i]; r.rec.Proven && !r.rec.Unsure && r.at > a.sent {
			o.find(True, c.orderNo, []int{a.line, r.line}, "created by an attempt of %s, after it was proven at %s that no attempt had or would", a.sent, r.at)
			return
		}
	}
}

// checkOwner checks that the broker has not delivered the message to another worker.
func (o *Oracle) checkOwner(c *course, a *attempt, own *claim) {
	if !own.ended {
		return
	}
	a.late = true
	if own.taken {
		a.unaware = true
		return
	}
	if o.bothWrong(a.process, own.at) {
		a.paused, a.unaware = true, true
		o.Counts.BothClocks++
		return
	}
	if own.untold() || o.settings.Outside && o.settings.Replicated { // nobody told the former owner
		if r := c.succeeded(a.claim, a.signed); r != nil && r.rec.Outcome() == order.OutcomeAccepted {
			a.unaware = true // which checkRecord finds
			return
		} else if r != nil {
			o.find(OneClaim, c.orderNo, []int{own.line, r.line}, "%s posts, though %s, and the next owner wrote the record at %s", a.process, own.why, r.at)
			return
		}
		if own.why == ByLeader && !own.asked && !o.settings.Clocks && // else an intent that has waited may seem fresh (R7)
			own.waited > Moment(o.settings.AckWait/3) && !o.process(a.process).behindAtArrival(own.at, a.signed) && !o.settings.Outside {
			o.find(OneClaim, c.orderNo, []int{own.line}, "%s posts, though %s, which did not know of the delivery: nobody asked for more time", a.process, own.why)
			return
		}
		if a.unaware = true; a.sent > a.signed {
			a.paused = true
			o.Counts.Pauses++
		} else {
			o.Counts.FormerOwners++
		}
		return
	}
	if a.sent > a.signed { // frozen between the fence and the socket
		a.paused, a.unaware = true, true
		o.Counts.Pauses++
		return
	}
	if own.why == ByTime && !o.settings.Outside { // from outside nobody sees when a claim ends
		o.find(OneClaim, c.orderNo, []int{own.line}, "%s posts, though %s", a.process, own.why)
		return
	}
	a.unaware = own.why == ByKill
	for _, other := range c.posts {
		if other.claim > a.claim && other.seq == a.seq {
			if other.fresh && (own.why == ByKill || o.settings.Outside && o.killed) {
				o.Counts.Overlaps++ // a new process does not wait for former owners
				return
			}
			o.find(OneClaim, c.orderNo, []int{own.line, other.line}, "%s posts, though %s and %s has posted since", a.process, own.why, other.process)
			return
		}
	}
	if a.unaware && o.justWoke(a.process) { // it slept while the broker was killed
		a.paused = true
		o.Counts.Pauses++
	}
}

// justWoke reports whether a process was frozen until now: it has not heard yet what
// happened meanwhile.
func (o *Oracle) justWoke(name string) bool {
	frozen := o.process(name).frozen
	return frozen > 0 && o.now-frozen <= Moment(o.settings.AckWait/10)
}

// lookAgain is how old a worker's last look at the record may be when it posts an order.
const lookAgain = Moment(time.Second)

// succeeded returns an open note or an outcome that a later owner wrote early enough for
// the owner of a claim to know it at a moment; nil also if that owner gave the order back
// since.
func (c *course) succeeded(claim int, at Moment) (by *observed) {
	for i := range c.records {
		switch r := &c.records[i]; {
		case r.until+lookAgain >= at:
		case by == nil && r.claim > claim && (r.rec.Open() || r.rec.Outcome() != order.OutcomeNone):
			by = r
		case by != nil && r.claim == by.claim && !r.rec.Open() && r.rec.Outcome() == order.OutcomeNone:
			by = nil
		}
	}
	return by
}

// checkRecord checks that the record at the time of the delivery allows a POST, which
// left not after until.
func (o *Oracle) checkRecord(c *course, a *attempt, own *claim, until Moment) {
	if r := c.acceptedSince(own.at, a.signed); r != nil && !o.bothWrong(a.process, own.at) && (o.settings.Replicated || !o.settings.Outside) {
		o.find(AcceptedOnce, c.orderNo, []int{r.line, own.line}, "%s posts %s, accepted since %s", a.process, a.intent, r.at)
		return
	}
	first := c.lastBefore(own.at)
	if first < 0 {
		return
	}
	last := &c.records[first]
	if last.rec.Outcome() == order.OutcomeAccepted {
		o.find(AcceptedOnce, c.orderNo, []int{last.line, own.line}, "%s posts %s, accepted since %s", a.process, a.intent, last.at)
		return
	}
	// The worker read this record or a later one that is not its own.
	by := o.clock(until + o.process(a.process).aheadSince(own.at))
	for i := first; i < len(c.records); i++ {
		r := &c.records[i]
		mine := i > first && r.claim == a.claim
		if !mine && (r.rec.IntentID != a.intent || r.delayed <= until || !r.rec.NotBefore.After(by)) {
			return // no delay, or over by the true time, or by the worker's clock
		}
	}
	o.find(Delay, c.orderNo, []int{last.line, own.line}, "%s posts %s before %s", a.process, a.intent, last.delayed)
}

// acceptedSince returns an acceptance that was stored after a delivery, and early enough
// to be known at a moment.
func (c *course) acceptedSince(delivered, at Moment) *observed {
	for i := range c.records {
		if r := &c.records[i]; r.at >= delivered && r.until+lookAgain < at && r.rec.Outcome() == order.OutcomeAccepted {
			return r
		}
	}
	return nil
}

// lastBefore returns the index of the last record that was certainly stored before at;
// -1 if there is none.
func (c *course) lastBefore(at Moment) int {
	i := len(c.records) - 1
	for i >= 0 && c.records[i].until >= at {
		i--
	}
	return i
}

// checkExplained checks that the previous attempt settled nothing or that its worker
// was lost.
func (o *Oracle) checkExplained(c *course, a, prev *attempt) {
	own, former := o.claims[a.claim], o.claims[prev.claim]
	switch {
	case own == nil || former == nil: // the history does not say whose attempt it was
		return
	case a.intent != prev.intent, a.seq != prev.seq, prev.unsure(), prev.recall:
		return
	case prev.verdict == order.Retry, prev.verdict == order.Denied:
		return
	case prev.claim != a.claim && former.why != "":
		return
	case own.ended:
		return // the former owner posts after the new one, which checkOwner checks
	}
	o.find(Explained, c.orderNo, []int{prev.line}, "the attempt before was answered with %s, and its worker was not lost", prev.verdict)
}

// checkParked checks that no earlier attempt is unsure unless it was cleared.
func (o *Oracle) checkParked(c *course, a *attempt, before []*attempt) {
	for _, b := range before {
		if !b.unsure() || b.doubt || c.cleared(a, b) { // what a rule refused is posted again once the rules are right
			continue
		}
		if a.paused || b.paused && b.sent >= a.signed {
			// One attempt was sent in the documented pause, after its claim had passed to
			// another worker. checkOwner counts it. An attempt that was signed before
			// could not know of it.
			continue
		}
		o.find(Park, c.orderNo, []int{b.line}, "%s posts %s, but the attempt of %s is unsure", a.process, a.intent, b.sent)
		return
	}
}

// cleared reports whether a later answer proved that no order exists, or a person
// allowed or settled the order.
func (c *course) cleared(a, b *attempt) bool {
	since := b.sent
	if b.paused { // nobody could know of it: a person's word may have come before it was sent
		since = b.signed
	}
	allowed := c.unseen // a record that nobody saw may have said so
	for _, r := range c.records {
		granted := r.rec.Allows(a.intent) && !allowed // the notes that follow repeat it
		if allowed = r.rec.Allows(a.intent); r.until >= since && (granted || r.rec.Proven && !r.rec.Unsure || r.rec.Resolved()) {
			return true
		}
	}
	return c.unseen
}
