package order

import "time"

// maxInterventions is the most interventions that a record keeps.
const maxInterventions = 10

// Intervention is something that a person did about an order_no. The record keeps
// it, whatever outcome comes later.
type Intervention struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
	// Did says what the person did, such as "resolved as accepted".
	Did string `json:"did"`
	// Note is the person's own text.
	Note string `json:"note,omitempty"`
}

// Intervene adds an intervention. The oldest ones are dropped.
func (r *Record) Intervene(i Intervention) {
	kept := r.Interventions[max(0, len(r.Interventions)+1-maxInterventions):]
	r.Interventions = append(append([]Intervention(nil), kept...), i)
}

// SettledBy changes an outcome to a person's word.
func (r *Record) SettledBy(person string, as Outcome, at time.Time) {
	before := *r
	r.SetOutcome(as)
	r.corrects(&before)
	r.Unsure, r.AllowedFor, r.Dropped, r.Letter = false, "", false, 0
	r.Earlier, r.Conflicts = withoutLetters(r.Earlier), r.joinConflicts(r.Conflicts, nil)
	r.By, r.SettledAt = person, at
	r.Reason = "settled by a person"
}

// Allows reports whether a person allowed this intent although the order's outcome
// is unknown. A permission for one intent covers no other, such as one that a
// producer enqueued meanwhile (R6).
func (r *Record) Allows(intentID string) bool {
	return r != nil && r.AllowedFor != "" && r.AllowedFor == intentID
}

// NeedsLetter reports whether the record must have a dead letter. A failed or
// unknown order needs one unless a person settled the order or dropped the letter.
func (r *Record) NeedsLetter() bool {
	return r.Outcome().NeedsLetter() && r.By == "" && !r.Dropped
}

// Resolved reports whether a person said whether the order exists. A cancellation says
// nothing about attempts.
func (r *Record) Resolved() bool {
	return r != nil && r.By != "" && (r.Outcome() == OutcomeAccepted || r.Outcome() == OutcomeRejected)
}

// TakeBack changes a cancellation to unknown: the feeder that withdrew the intent was frozen,
// another one had moved it, and a worker may have posted it (R13).
func (r *Record) TakeBack() {
	r.SetOutcome(OutcomeUnknown)
	r.Reason = "withdrawn while a worker may have posted it"
	r.Doubt(r.Reason)
	if r.Unqueued {
		r.By = "" // whoever is given the intent files its letter
	}
}

// inheritPermission copies the permission of cur, which r replaces. A person allows
// only the doubt that is on record. New doubt ends the permission: a later attempt
// was unsure, or its delivery ended without a report.
func (r *Record) inheritPermission(cur *Record) {
	abandoned := cur.Open() && (cur.Delivered != r.Delivered || !cur.SameDelivery(r))
	if r.AllowedFor == "" && !abandoned && !r.doubtsAnew() {
		r.AllowedFor = cur.AllowedFor
	}
}

// SameDelivery reports whether two notes with the same delivery number were written for
// the same delivery. Those of older workers say no more than their worker.
func (r *Record) SameDelivery(other *Record) bool {
	return r.DeliveryID == other.DeliveryID && (r.DeliveryID != "" || r.Worker == other.Worker)
}

// Open reports whether the record is the note of an unfinished attempt. Its writer
// may have posted the order and stopped before it could report the result.
func (r *Record) Open() bool {
	return r != nil && r.Outcome() == OutcomeNone && (r.Note == NoteAttempt || r.Note == NoteSuspect)
}

// LeftOpen changes a doubtful note to unknown: its intent left the stream without an outcome.
func (r *Record) LeftOpen(at time.Time) {
	r.SetOutcome(OutcomeUnknown)
	r.Doubt("its intent left the queue without an outcome")
	r.SettledAt = at
}

// Doubtful reports whether an attempt may have created the order, although no answer says
// so: the record is in doubt, or an attempt was left open.
func (r *Record) Doubtful() bool {
	return r != nil && (r.Unsure || r.Outcome() == OutcomeUnknown) || r.Open()
}
