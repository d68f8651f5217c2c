package door

import (
	"slices"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Outcome is what became of one submission, and of no other.
type Outcome struct {
	OrderNo, ID string
	// Outcome is OutcomeNone while the submission is pending.
	Outcome order.Outcome
	// Pending: it has no outcome yet.
	Pending bool
	// Created says whether the order exists at the API by this submission: "yes", "no"
	// or "unknown".
	Created string
	// Reason is a short, stable phrase for grouping.
	Reason string
	// Batch and Source are those of the submission.
	Batch, Source string
	// Record is the last word on the order_no, or nil. It may be about another submission.
	Record *order.Record
	// Position is the record's place in the results: Outcomes goes on after it.
	Position uint64
}

// conflictReason is the reason of a submission whose order_no was accepted with another
// body.
const conflictReason = "conflict: the order_no was accepted with another body"

// of returns what a record says about a submission, by docs/producers.md ("Is it about my
// submission?"). "" means the last word on the order_no. ok is false if the record says
// nothing about it.
func of(e settle.Entry, id string) (o Outcome, ok bool) {
	r := e.Record
	if r == nil {
		return o, false
	}
	o = Outcome{OrderNo: r.OrderNo, ID: id, Outcome: r.Outcome(), Reason: r.Reason, Batch: r.Batch, Source: r.Source, Record: r, Position: e.Seq}
	listed := slices.IndexFunc(r.Conflicts, func(c order.Conflict) bool { return c.IntentID == id })
	switch {
	case id == "":
		o.ID = r.IntentID
	case listed >= 0:
		c := r.Conflicts[listed]
		if o.Batch, o.Source = c.Batch, c.Source; o.Outcome == order.OutcomeAccepted {
			o.Outcome, o.Reason = order.OutcomeRejected, conflictReason
		}
	case r.IntentID != id:
		return Outcome{}, false
	}
	o.Pending, o.Created = o.Outcome == order.OutcomeNone, o.Outcome.Created()
	return o, true
}

// all returns what a record says, for a reader of all records: first about the
// submissions that it lists as conflicts, last about its own. Only the last has the
// record's position, so that a reader who stops in between gets all of them again.
func all(e settle.Entry) (out []Outcome) {
	for _, c := range e.Record.Conflicts {
		if c.IntentID == e.Record.IntentID {
			continue
		}
		if o, _ := of(e, c.IntentID); !o.Pending {
			o.Position--
			out = append(out, o)
		}
	}
	if o, _ := of(e, e.Record.IntentID); !o.Pending {
		out = append(out, o)
	}
	return out
}
