package oracle

import "slices"

// clocks notes what became of a process's clocks.
func (o *Oracle) clocks(e *Event) {
	p := o.process(e.Process)
	if e.Kind == Suspended {
		p.frozen = max(p.frozen, e.Until)
		p.sleptUntil = e.Until
		return
	}
	if e.Shift < p.shift && e.Why != "start" {
		p.backAt = e.At
	}
	p.shift, p.setAt = e.Shift, e.At
	p.shifts = append(p.shifts, shifted{e.At, e.Shift})
}

// shifted is a setting of a wall clock.
type shifted struct{ at, by Moment }

// shiftAt returns how far the process's wall clock was ahead of the true time then.
func (p *process) shiftAt(at Moment) (by Moment) {
	for _, s := range p.shifts {
		if s.at > at {
			break
		}
		by = s.by
	}
	return by
}

// behindAtArrival reports whether the process's wall clock may have been behind the true
// time when it saw what the broker had delivered to it. A message may take its time.
func (p *process) behindAtArrival(delivered, posted Moment) bool {
	return p.shiftAt(delivered) < 0 ||
		slices.ContainsFunc(p.shifts, func(s shifted) bool { return s.at > delivered && s.at <= posted && s.by < 0 })
}

// aheadSince returns how far the process's wall clock was ahead of the true time at
// most since then.
func (p *process) aheadSince(since Moment) Moment {
	most := p.shift
	for i := len(p.shifts) - 1; i >= 0 && p.shifts[i].at > since; i-- {
		before := Moment(0)
		if i > 0 {
			before = p.shifts[i-1].by
		}
		most = max(most, before)
	}
	return most
}

// byItsClock reports whether an attempt has the time that its process's clock showed, and
// not the millisecond after the order's last timestamp.
func (o *Oracle) byItsClock(a *attempt) bool {
	for _, at := range [...]Moment{a.signed, a.sent} {
		if o.clock(at+o.process(a.process).shiftAt(at)).UnixMilli() == a.stamp {
			return true
		}
	}
	return false
}

// recorded reports whether a record that was stored before an attempt names its timestamp
// or a later one. The note ahead of the attempt does not count.
func (c *course) recorded(a *attempt) bool {
	for _, r := range c.records {
		if r.claim != a.claim && r.until <= a.sent && r.rec.LastTimestamp >= a.stamp {
			return true
		}
	}
	return false
}

// delayOver returns when the delay in a record is over by the true time. Its writer
// counted it by its own clock, after it had got the order.
func (o *Oracle) delayOver(c *course, e *Event) Moment {
	if e.Record.NotBefore.IsZero() {
		return 0
	}
	if n := len(c.records); n > 0 && c.records[n-1].rec.NotBefore.Equal(e.Record.NotBefore) {
		return c.records[n-1].delayed // the note of somebody who waited, too
	}
	since := Moment(0)
	if own := o.claims[e.Claim]; own != nil {
		since = own.at
	}
	return o.moment(e.Record.NotBefore) - o.process(e.Process).aheadSince(since)
}

// bothWrong reports whether both clocks of a process may have hidden time that passed
// since a delivery: its machine was suspended, and its wall clock was put back, perhaps
// while it was asking for the delivery. No worker can notice that.
func (o *Oracle) bothWrong(name string, delivered Moment) bool {
	p := o.process(name)
	return p.sleptUntil >= max(1, delivered) && p.backAt >= max(1, delivered-Moment(o.settings.AckWait/2))
}
