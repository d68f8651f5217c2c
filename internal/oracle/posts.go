package oracle

import "orderpost/internal/order"

// posted checks a request when it is sent.
func (o *Oracle) posted(e *Event) {
	c := o.course(e.OrderNo)
	p := o.process(e.Process)
	a := &attempt{line: e.Line, intent: e.Intent, seq: e.Seq, process: e.Process, claim: e.Claim, gate: e.Gate, signed: e.Signed,
		sent: e.At, stamp: e.Stamp, fresh: !p.reconnected}
	o.attempts[e.Attempt] = a
	o.Counts.Posts++
	before := c.posts
	c.posts = append(before, a)
	if own := o.claims[a.claim]; own != nil {
		o.checkOwner(c, a, own)
		o.checkRecord(c, a, own, e.until())
	}
	if o.full && p.refused > o.fullSince && a.gate > p.refused {
		o.find(Storage, c.orderNo, nil, "%s posts, though it heard at %s that its results are refused", a.process, p.refused)
	}
	for _, b := range before {
		if a.stamp != 0 && b.stamp == a.stamp {
			// The worker before died with its timestamp, or one of the two sent in the
			// documented pause, when another had the order.
			if p.setAt > 0 || o.process(b.process).setAt > 0 || a.paused || b.paused {
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

// checkOwner checks that the broker has not delivered the message to another worker.
func (o *Oracle) checkOwner(c *course, a *attempt, own *claim) {
	if !own.ended {
		return
	}
	a.late, a.froze = true, o.process(a.process).frozen > own.at || own.taken
	if own.taken {
		return
	}
	if o.bothWrong(a.process, own.at) {
		a.paused = true
		o.Counts.BothClocks++
		return
	}
	if a.sent > a.signed { // frozen between the fence and the socket
		a.paused = true
		o.Counts.Pauses++
		return
	}
	for _, other := range c.posts {
		if other.claim > a.claim && other.seq == a.seq {
			if other.fresh {
				o.Counts.Overlaps++ // a new process does not wait for former owners
				return
			}
			o.find(OneClaim, c.orderNo, []int{own.line, other.line}, "%s posts, though %s and %s has posted since", a.process, own.why, other.process)
			return
		}
	}
}

// checkRecord checks that the record at the time of the delivery allows a POST, which
// left not after until.
func (o *Oracle) checkRecord(c *course, a *attempt, own *claim, until Moment) {
	last, there := c.lastBefore(own.at)
	if !there {
		return
	}
	p := o.process(a.process)
	switch {
	case last.rec.Outcome() == order.OutcomeAccepted:
		o.find(AcceptedOnce, c.orderNo, []int{last.line, own.line}, "%s posts %s, accepted since %s", a.process, a.intent, last.at)
	case last.rec.IntentID == a.intent && last.rec.NotBefore.After(o.clock(until+max(0, p.shift))) && own.at >= p.setAt: // by the true clock and by its own
		o.find(Delay, c.orderNo, []int{last.line, own.line}, "%s posts %s before %s", a.process, a.intent, o.moment(last.rec.NotBefore))
	}
}

// lastBefore returns the last record that was certainly stored before at.
func (c *course) lastBefore(at Moment) (observed, bool) {
	for i := len(c.records) - 1; i >= 0; i-- {
		if c.records[i].until < at {
			return c.records[i], true
		}
	}
	return observed{}, false
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
		if !b.unsure() || c.cleared(a, b) {
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
		if allowed = r.rec.Allows(a.intent); r.until >= since && (granted || r.rec.Proven || r.rec.By != "") {
			return true
		}
	}
	return c.unseen
}
