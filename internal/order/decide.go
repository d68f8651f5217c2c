package order

// Action is what happens to the intent's message.
type Action uint8

// The actions of a settlement.
const (
	// ActSettle: write the outcome (then the dead letter, if the outcome needs
	// one), then acknowledge.
	ActSettle Action = iota + 1
	// ActDelay: write a note, then give the message back with a delay.
	ActDelay
	// ActHandBack: write a note, then give the message back at once.
	ActHandBack
	// ActMerge: the claim is gone. Merge what is known into the results, if it
	// raises them, and leave the message alone.
	ActMerge
)

var actionNames = [...]string{"", "settle", "delay", "hand-back", "merge"}

// String gives the word used in logs.
func (a Action) String() string { return nameOf(actionNames[:], int(a)) }

// Facts are what Decide needs beside the visit's report.
type Facts struct {
	Policy Policy
	// FirstProven: a confirmed note proves that the last attempt was our first
	// one for this order_no, so that a duplicate answer is about somebody
	// else's order.
	FirstProven bool
	// Allowed: a person allowed this intent although the order is in doubt, so
	// that under Park only a new unsure attempt parks it again.
	Allowed bool
}

// Settlement is what becomes of an order after a visit.
type Settlement struct {
	Action Action
	// Outcome is set for ActSettle, and for ActMerge where the visit learned one.
	Outcome Outcome
	// Unsure is the doubt that the record must carry.
	Unsure bool
}

// Decide is the one place where an order's outcome is decided.
//
// Doubt is sticky (protocol R3): once an attempt may have created the order,
// every outcome that claims "not created" becomes unknown, unless the answer
// itself proves that nothing exists (Report.Final). A duplicate answer under
// doubt means that our own earlier attempt created it; without doubt it is a
// refusal only if a note proves that nobody of ours asked before.
func Decide(r Report, f Facts) Settlement {
	doubt := r.History.Unsure && !r.Final
	switch {
	case r.End == EndLeaseLost:
		return merge(r, f, doubt)
	case r.Verdict == Accepted: // it exists, however the visit ended
		return settle(OutcomeAccepted, false)
	}
	switch r.End {
	case EndHandBack:
		return Settlement{Action: ActHandBack, Unsure: doubt}
	case EndVisitBudget:
		if doubt && f.Policy == Park && !f.Allowed {
			return settle(OutcomeUnknown, true)
		}
		return Settlement{Action: ActDelay, Unsure: doubt}
	case EndTotalBudget:
		return notCreated(OutcomeExhausted, doubt)
	case EndDeadline:
		return notCreated(OutcomeExpired, doubt)
	case EndInvalid:
		return notCreated(OutcomeInvalid, doubt)
	case EndPoison:
		return notCreated(OutcomePoison, doubt)
	case EndAnswer:
		return answered(r, f, doubt)
	default:
		// A visit that does not say how it ended proves nothing: ask again.
		return Settlement{Action: ActHandBack, Unsure: doubt}
	}
}

// answered decides by the last attempt's verdict.
func answered(r Report, f Facts, doubt bool) Settlement {
	switch r.Verdict {
	case Accepted:
		return settle(OutcomeAccepted, false)
	case Duplicate:
		switch {
		case r.History.Unsure:
			return settle(OutcomeAccepted, false)
		case f.FirstProven:
			return settle(OutcomeRejected, false)
		default:
			return settle(OutcomeUnknown, true)
		}
	case Rejected:
		return notCreated(OutcomeRejected, doubt)
	case Unsure:
		if f.Policy == Park {
			return settle(OutcomeUnknown, true)
		}
		return Settlement{Action: ActDelay, Unsure: true}
	default: // retry, denied, none: nothing about this order is settled
		return Settlement{Action: ActHandBack, Unsure: doubt}
	}
}

// merge keeps what a visit learned although its claim is gone: an acceptance
// raises the record, doubt is noted, everything else is the new owner's to say.
func merge(r Report, f Facts, doubt bool) Settlement {
	if s := answered(r, f, doubt); s.Outcome == OutcomeAccepted {
		return Settlement{Action: ActMerge, Outcome: OutcomeAccepted}
	}
	return Settlement{Action: ActMerge, Unsure: doubt || r.Verdict == Unsure}
}

func settle(o Outcome, unsure bool) Settlement {
	return Settlement{Action: ActSettle, Outcome: o, Unsure: unsure}
}

// notCreated settles with an outcome that claims "not created", or with
// unknown where that claim cannot be made.
func notCreated(o Outcome, doubt bool) Settlement {
	if doubt {
		return settle(OutcomeUnknown, true)
	}
	return settle(o, false)
}
