package order

import (
	"fmt"
	"time"
)

// Recalled is the answer to an attempt whose refusal was called back: a rule may have
// taken an acceptance for a refusal. The answer is kept until the rules can judge it
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
	// Rule is the number of the rule that called it a refusal; 0 = built in.
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
	return r.Rule > 0 == (other.Rule > 0) && r.Reason == other.Reason && r.Status == other.Status && r.Said == other.Said && r.BodyHash == other.BodyHash
}

// Recall notes that the last attempt's refusal was called back. before is the history
// before that attempt was judged. If a rule gave the refusal, the order is in doubt. Of
// several such answers of one kind, the first one is kept. If they are of several kinds,
// no later judgement of one of them ends the doubt.
func (h *History) Recall(before History, r Recalled) {
	r.Only = false
	switch had := &before.Recalled; {
	case r.Rule == 0: // its status says that nothing was created
		if h.Unsure = before.Unsure; !before.Unsure {
			h.Recalled = r
		}
		return
	case !before.Unsure:
		r.Only, h.DoubtReason = true, "a refusal was called back: "+r.Reason
	case had.Only && had.sameKind(&r):
		r = *had
	case had.Rule > 0:
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
	h.Unsure, h.Recalled.Only = true, false
}

// Settleable reports whether all doubt about the order is about answers that the rules
// can judge again.
func (h *History) Settleable() bool { return h.Unsure && h.Recalled.Only }

// joinDoubt merges the doubt of two histories of one order_no.
func joinDoubt(a, b History) (unsure bool, reason string, kept Recalled) {
	kept = b.Recalled
	if kept.Rule == 0 && a.Recalled.Rule > 0 || kept.At.IsZero() {
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
