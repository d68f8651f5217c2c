package order

import (
	"fmt"
	"time"
)

// Action says what the worker does with an intent's message.
type Action uint8

// The actions of a settlement.
const (
	// ActSettle: store the dead letter if the outcome needs one, write the outcome,
	// then acknowledge the message (R4).
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
	case EndLookup:
		return Settlement{Action: ActDelay, Unsure: doubt}
	case EndAbsent:
		if f.Policy == Park && !r.Repost {
			return notCreated(OutcomeExhausted, doubt)
		}
		return Settlement{Action: ActHandBack, Unsure: doubt}
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

// End says why a submission ended.
type End uint8

// The ends of a submission.
const (
	EndNone End = iota
	// EndAnswer: the last attempt's verdict settles the order (accepted,
	// duplicate, rejected), or it is unsure and the policy parks the order.
	EndAnswer
	// EndSubmissionBudget: a passing fault used up the attempts or the time of this
	// submission, but not the total budget. The intent goes back with a delay.
	EndSubmissionBudget
	// EndTotalBudget: the total attempts or the total age are used up.
	EndTotalBudget
	// EndDeadline: the order's own deadline passed.
	EndDeadline
	// EndHandBack: the submission ended for a reason outside the order, such as a
	// shutdown, a closed gate, a denied key or a recalled refusal.
	EndHandBack
	// EndLeaseLost: another worker may hold the claim. The worker may only merge
	// what it knows into the record (R7).
	EndLeaseLost
	// EndInvalid: the intent can never be sent. This submission made no attempt.
	EndInvalid
	// EndPoison: the intent repeatedly crashed its worker while handled alone.
	EndPoison
	// EndCancelled: a person withdrew the order before an attempt that may have created it.
	EndCancelled
	// EndLookup: the order is in doubt, and no lookup has ended that yet. It is asked again
	// after a delay.
	EndLookup
	// EndAbsent: lookups proved that no attempt created the order. It may be posted again.
	EndAbsent
)

var endNames = [...]string{"", "answer", "submission-budget", "total-budget", "deadline", "hand-back", "lease-lost", "invalid", "poison", "cancelled", "lookup", "absent"}

// String returns the word used in logs.
func (e End) String() string { return nameOf(endNames[:], int(e)) }

// Report is the result of a submission and the input of [Decide].
type Report struct {
	End End
	// Verdict, Final, Status, Response, Reason, Said and Error describe the last attempt
	// of this submission. Final says that the matching rule takes the answer as
	// proof that no order exists under this order_no.
	Verdict  Verdict
	Final    bool
	Status   int
	Response string
	Reason   string
	Said     string
	Error    string
	// API are members of an answer that says that the order exists, as the rules keep them, by their names.
	API map[string]string
	// History covers all submissions, this one included.
	History History
	// Delay is the wait before the next submission (EndSubmissionBudget, EndLookup).
	Delay time.Duration
	// Repost says that an order that lookups found absent is posted again, also under Park.
	Repost bool
	// Trail lists the last attempts of this submission, oldest first.
	Trail []Attempt
}

// Policy says what happens to an order after an unsure attempt.
type Policy uint8

// The policies of ORDERPOST_ON_UNSURE.
const (
	// Resubmit posts the order again with the same order_no. It is safe only if the
	// API refuses or recognises a duplicate order_no.
	Resubmit Policy = iota
	// Park posts no order again after an unsure attempt, unless a person allows it, or lookups prove that there is
	// none and the rules say repost.
	Park
)

var policyNames = [...]string{"resubmit", "park"}

// String returns the setting's word.
func (p Policy) String() string { return nameOf(policyNames[:], int(p)) }

// MarshalText implements encoding.TextMarshaler.
func (p Policy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Policy) UnmarshalText(text []byte) error {
	for i, name := range policyNames {
		if name == string(text) {
			*p = Policy(i)
			return nil
		}
	}
	return &EnumError{Kind: "policy", Seen: string(text), Known: policyNames[:]}
}

// Unexplained is Recalled.Rule of an answer that no rule explained.
const Unexplained = -1

// Recalled is the answer to an attempt whose refusal was called back, because a rule may have
// taken an acceptance for a refusal, or that no rule explained. It is kept until the rules can judge it
// again (R3).
type Recalled struct {
	// At is the attempt's start, Attempt its number.
	At      time.Time `json:"at,omitzero"`
	Attempt int       `json:"attempt,omitempty"`
	Status  int       `json:"status,omitempty"`
	// MediaType is the answer's Content-Type.
	MediaType string `json:"media_type,omitempty"`
	// Answer is the answer's body, truncated to 4096 bytes, without
	// keys. Part says that it is not the body as it came, so no rule can judge it.
	Answer string `json:"answer,omitempty"`
	Part   bool   `json:"part,omitempty"`
	// Said is what the answer itself says (Record.Said).
	Said string `json:"said,omitempty"`
	// Rule is the number of the rule that called it a refusal; 0 = built in, Unexplained = none did.
	Rule int `json:"rule,omitempty"`
	// Reason is the reason of that refusal.
	Reason string `json:"reason,omitempty"`
	// BodyHash is the body that the attempt posted.
	BodyHash string `json:"body_hash,omitempty"`
	// Only says that answers of this kind are all that the order's doubt is about.
	Only bool `json:"only,omitempty"`
}

// WhatSaid says what called the answer a refusal, and what that leaves.
func (r *Recalled) WhatSaid() string {
	switch {
	case r.Rule == Unexplained:
		return "no rule explains it (" + r.Reason + "); the rules of the next attempt judge it first"
	case r.Rule == 0:
		return "its status says that nothing was created"
	case r.Only:
		return fmt.Sprintf("rule %d said rejected (%s); the next attempt judges the answer again", r.Rule, r.Reason)
	default:
		return fmt.Sprintf("rule %d said rejected (%s)", r.Rule, r.Reason)
	}
}

// sameKind reports whether two answers were refused by rules of one reason, for the same thing. A
// rule's number changes with the file.
func (r *Recalled) sameKind(other *Recalled) bool {
	return r.Rule != 0 == (other.Rule != 0) && r.Reason == other.Reason && r.Status == other.Status && r.Said == other.Said && r.BodyHash == other.BodyHash
}

// Recall notes that the last attempt's refusal was called back, or its answer not explained. before is the history
// before that attempt was judged. Unless its status gave the refusal, the order is in doubt. Of
// several such answers of one kind, the first one is kept. If they are of several kinds,
// no later judgement of one of them ends the doubt.
func (h *History) Recall(before History, r Recalled) {
	r.Only, h.AbsentAt = false, time.Time{}
	switch had := &before.Recalled; {
	case r.Rule == 0: // its status says that nothing was created
		if h.Unsure = before.Unsure; !before.Unsure {
			h.Recalled = r
		}
		return
	case !before.Unsure:
		if r.Only, h.DoubtReason = true, r.Reason; r.Rule > 0 {
			h.DoubtReason = "a refusal was called back: " + r.Reason
		}
	case had.Only && had.sameKind(&r):
		r = *had
	case had.Rule != 0:
		r = *had
		r.Only = false
	}
	h.Unsure, h.Recalled = true, r
}

// Doubt notes that an attempt may have created the order, for another reason than a
// refusal that was called back.
func (h *History) Doubt(reason string) {
	if !h.Unsure {
		h.DoubtReason = reason
	}
	h.Unsure, h.Recalled.Only, h.AbsentAt = true, false, time.Time{}
}

// Settleable reports whether all doubt about the order is about answers that the rules
// can judge again.
func (h *History) Settleable() bool { return h.Unsure && h.Recalled.Only }

// joinDoubt merges the doubt of two histories of one order_no.
func joinDoubt(a, b History) (unsure bool, reason string, kept Recalled) {
	kept = b.Recalled
	if kept.Rule == 0 && a.Recalled.Rule != 0 || kept.At.IsZero() {
		kept = a.Recalled
	}
	fits := func(x *History) bool { return !x.Unsure || x.Recalled.Only && x.Recalled.sameKind(&kept) }
	unsure, reason = a.Unsure || b.Unsure, b.DoubtReason
	if a.Unsure && a.DoubtReason != "" {
		reason = a.DoubtReason
	}
	kept.Only = unsure && fits(&a) && fits(&b)
	return unsure, reason, kept
}

// judged reports whether next was decided by judging again what all doubt of r is about.
func (r *Record) judged(next *Record) bool {
	return r.Settleable() && !next.Unsure && next.Recalled.Only && next.Recalled.sameKind(&r.Recalled)
}

// doubtsAnew reports whether the last attempt of a note may have created the order.
func (r *Record) doubtsAnew() bool {
	return r.Verdict.LeavesDoubt() || r.Verdict == Rejected && r.Unsure && r.Recalled.Rule > 0
}
