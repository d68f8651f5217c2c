package order

// Action says what the worker does with an intent's message.
type Action uint8

// The actions of a settlement.
const (
	// ActSettle: write the outcome, then the dead letter if the outcome needs one,
	// then acknowledge the message.
	ActSettle Action = iota + 1
	// ActDelay: write a note, then return the message with a delay.
	ActDelay
	// ActHandBack: write a note, then return the message at once.
	ActHandBack
	// ActMerge: the claim is lost. Merge what the worker learned into the record
	// and do not touch the message.
	ActMerge
)

var actionNames = [...]string{"", "settle", "delay", "hand-back", "merge"}

// String returns the word used in logs.
func (a Action) String() string { return nameOf(actionNames[:], int(a)) }

// Facts are what Decide needs besides the report.
type Facts struct {
	Policy Policy
	// FirstProven says that the last attempt is proven to be our first one for this
	// order_no. A duplicate answer then refers to an order that somebody else created.
	FirstProven bool
	// Allowed says that a person allowed this intent although the order is in
	// doubt. Under Park, only a new unsure attempt then parks it again.
	Allowed bool
}

// Settlement says what becomes of an order after a submission.
type Settlement struct {
	Action Action
	// Outcome is set for ActSettle. It is set for ActMerge if the submission
	// learned an outcome.
	Outcome Outcome
	// Unsure is the doubt that the record must carry.
	Unsure bool
}

// Decide decides the outcome of a submission, which is every intent that a worker may
// post. Intents that are never posted get their outcome where that is found out:
// settle.classify and settle.Refuse (repetitions, conflicts, withheld ones), settle.Move
// (cancelled while they waited), and a person's Resolve.
//
// Doubt is sticky (R3). Once an attempt may have created the order, Decide turns
// every outcome that claims "not created" into unknown, unless the answer proves
// that no order exists (Report.Final).
//
// A duplicate answer under doubt means that our own earlier attempt created the
// order. Without doubt, it is a refusal only if this was our first attempt, which is
// proven under park alone.
func Decide(r *Report, f Facts) Settlement {
	doubt := (r.History.Unsure || r.Verdict.LeavesDoubt()) && !r.Final
	switch {
	case r.End == EndLeaseLost:
		return merge(r, f, doubt)
	case r.Verdict == Accepted: // the order exists, however the submission ended
		return settle(OutcomeAccepted, false)
	}
	switch r.End {
	case EndHandBack:
		return Settlement{Action: ActHandBack, Unsure: doubt}
	case EndSubmissionBudget:
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
	case EndCancelled:
		return notCreated(OutcomeCancelled, doubt)
	case EndAnswer:
		return answered(r, f, doubt)
	default:
		// A submission without an end proves nothing. Try again.
		return Settlement{Action: ActHandBack, Unsure: doubt}
	}
}

// answered decides by the last attempt's verdict.
func answered(r *Report, f Facts, doubt bool) Settlement {
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
	case Retry, Denied, VerdictNone: // they settle nothing
		return Settlement{Action: ActHandBack, Unsure: doubt}
	default: // unsure, and every verdict that nobody decided about
		if f.Policy == Park {
			return settle(OutcomeUnknown, true)
		}
		return Settlement{Action: ActDelay, Unsure: true}
	}
}

// merge decides for a lost claim. An acceptance raises the record and doubt is
// noted. The new owner of the claim decides everything else.
func merge(r *Report, f Facts, doubt bool) Settlement {
	if s := answered(r, f, doubt); s.Outcome == OutcomeAccepted {
		return Settlement{Action: ActMerge, Outcome: OutcomeAccepted}
	}
	return Settlement{Action: ActMerge, Unsure: doubt || r.Verdict.LeavesDoubt()}
}

func settle(o Outcome, unsure bool) Settlement {
	return Settlement{Action: ActSettle, Outcome: o, Unsure: unsure}
}

// notCreated settles with an outcome that claims "not created". In doubt it
// settles with unknown.
func notCreated(o Outcome, doubt bool) Settlement {
	if doubt {
		return settle(OutcomeUnknown, true)
	}
	return settle(o, false)
}
