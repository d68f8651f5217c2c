package oracle

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
}

// bothWrong reports whether both clocks of a process may have hidden time that passed
// since at: its machine was suspended, and its wall clock was put back. No worker can
// notice that.
func (o *Oracle) bothWrong(name string, at Moment) bool {
	p := o.process(name)
	return p.backAt > 0 && p.sleptUntil > 0 && min(p.backAt, p.sleptUntil) >= at-Moment(o.settings.AckWait)
}
