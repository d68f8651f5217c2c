package order

import "time"

// maxInterventions bounds what is kept of what persons did to one order_no.
const maxInterventions = 10

// Intervention is something that a person did about an order_no. It stays with
// the order's record, whatever outcome comes later.
type Intervention struct {
	At time.Time `json:"at"`
	By string    `json:"by"`
	// Did says what, in a few words ("resolved as accepted").
	Did string `json:"did"`
	// Note is the person's own text.
	Note string `json:"note,omitempty"`
}

// Intervene adds what a person did. The oldest ones give way.
func (r *Record) Intervene(i Intervention) {
	kept := r.Interventions[max(0, len(r.Interventions)+1-maxInterventions):]
	r.Interventions = append(append([]Intervention(nil), kept...), i)
}

// Intervened says whether a person did this already.
func (r *Record) Intervened(did string) bool {
	for _, i := range r.Interventions {
		if i.Did == did {
			return true
		}
	}
	return false
}

// Allows says whether a person allowed this intent although the order's outcome
// is unknown. A permission for one intent lets no other one through: a producer
// who enqueues the order_no meanwhile is not who was meant (R6).
func (r *Record) Allows(intentID string) bool {
	return r != nil && r.Allowed && (r.AllowedFor == "" || r.AllowedFor == intentID)
}

// NeedsLetter says whether the record must have its dead letter: a failure or
// a doubt that no person has settled, and whose letter nobody dropped.
func (r *Record) NeedsLetter() bool {
	return r.Outcome().NeedsLetter() && r.By == "" && !r.Dropped
}

// inheritPermission keeps the permission of the record that r replaces. A person
// allows the doubt that she saw. A later attempt that is in doubt itself ends
// the permission: it was unsure, or its delivery never said how it ended.
func (r *Record) inheritPermission(cur *Record) {
	abandoned := cur.Open() && (cur.Delivered != r.Delivered || cur.Worker != r.Worker)
	if cur.Allowed && !r.Allowed && !abandoned && r.Verdict != Unsure {
		r.Allowed, r.AllowedFor = true, cur.AllowedFor
	}
}

// Open says whether the record is the note of an attempt that nobody has ended:
// its writer may have posted the order and did not come back to say so.
func (r *Record) Open() bool {
	return r != nil && r.Outcome() == OutcomeNone && (r.Note == NoteAttempt || r.Note == NoteSuspect)
}
