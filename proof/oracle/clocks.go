package oracle

import (
	"slices"

	"orderpost/internal/order"
)

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

// byItsClock reports whether an attempt has the timestamp that the clock gave, and not one
// behind the order's last.
func (o *Oracle) byItsClock(a *attempt) bool {
	gave := func(reading int64) bool { return order.NextTimestamp(0, reading) == a.stamp }
	if order.Rewinds(a.stamp) > 0 {
		gave = func(reading int64) bool { return reading-100 < a.stamp && a.stamp <= reading }
	}
	if a.reading != 0 {
		return gave(a.reading)
	}
	for _, at := range [...]Moment{a.signed, a.sent} {
		if gave(o.clock(at + o.process(a.process).shiftAt(at)).UnixMilli()) {
			return true
		}
	}
	return false
}

// followsShared reports whether an attempt has the timestamp next to that of an attempt
// before, which was excused: a clock may show the same time to both.
func (c *course) followsShared(a *attempt) bool {
	return slices.ContainsFunc(c.posts, func(b *attempt) bool {
		return b != a && b.shared && order.NextTimestamp(b.stamp, b.stamp) == a.stamp
	})
}

// jumped reports whether the clock that stamped an attempt had jumped.
func (o *Oracle) jumped(a *attempt) bool {
	p := o.process(a.process)
	return p.setAt > 0 || a.reading != 0 && a.reading != o.clock(a.sent).UnixMilli()
}

// recorded reports whether a record that was stored before an attempt was signed names the
// timestamp of an earlier one, or one that was used later. The note ahead of the attempt
// does not count. A process need not know of a record that is younger than its last look may
// be, nor of one that was stored while it was frozen between its signature and the socket.
func (c *course) recorded(a, earlier *attempt) bool {
	for _, r := range c.records {
		last := r.rec.LastTimestamp
		if r.claim != a.claim && r.until+lookAgain <= a.signed && r.at > earlier.sent && order.LaterTimestamp(last, earlier.stamp) == last {
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
