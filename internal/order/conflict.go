package order

import (
	"slices"
	"time"
)

// maxConflicts is the most conflicts that a record keeps of which nobody waits for the letter, and mostLetters of all.
const (
	maxConflicts = 10
	mostLetters  = 100
)

// Conflict is an intent that was not sent, because its order_no belongs to an intent with
// another body, which exists or may exist. The record that lists it is about that body.
type Conflict struct {
	IntentID string `json:"intent_id"`
	// BodyHash is empty for a body that can never be sent.
	BodyHash string `json:"body_hash,omitempty"`
	// Position is that of the last copy of the intent that is counted.
	Position
	Batch  string `json:"batch,omitempty"`
	Source string `json:"source,omitempty"`
	// RefusedAt is when a worker found the conflict.
	RefusedAt time.Time `json:"refused_at,omitzero"`
	// Waited says that the intent came out of the waiting room (R13), and Unqueued that it was
	// withdrawn there and never reached the intents stream.
	Waited   bool `json:"waited,omitempty"`
	Unqueued bool `json:"unqueued,omitempty"`
	// Letter is the sequence of the intent's dead letter, which holds its body; 0 = it has
	// none, or none yet. Dropped says that a person dropped it.
	Letter  uint64 `json:"letter,omitempty"`
	Dropped bool   `json:"dropped,omitempty"`
}

// ConflictOf returns the entry of an intent in Conflicts if the order exists, or nil. With any
// other outcome, the intents that are listed share that outcome.
func (r *Record) ConflictOf(intentID string) *Conflict {
	if r.Outcome() != OutcomeAccepted {
		return nil
	}
	return r.Listed(intentID)
}

// Settles reports whether the record settles this intent, with an outcome of its own or because
// it lists it.
func (r *Record) Settles(intentID string) bool {
	return r.Outcome() != OutcomeNone && (r.IntentID == intentID || r.Listed(intentID) != nil)
}

// Last returns the position of the newest intent in the record. present is the birth of the
// stream as it is now.
func (r *Record) Last(present int64) Position {
	last := r.Position
	for i := range r.Conflicts {
		if c := r.Conflicts[i].Position; c.After(last, present) {
			last = c
		}
	}
	return last
}

// Listed returns the entry of an intent in Conflicts, or nil. It is nil for nil.
func (r *Record) Listed(intentID string) *Conflict {
	if r == nil {
		return nil
	}
	for i := range r.Conflicts {
		if r.Conflicts[i].IntentID == intentID {
			return &r.Conflicts[i]
		}
	}
	return nil
}

// Refuse adds the intent of other to the conflicts of r, unless it has the same
// body.
func (r *Record) Refuse(other *Record) {
	r.Conflicts = r.joinConflicts(r.Conflicts, []Conflict{{
		IntentID: other.IntentID, BodyHash: other.BodyHash, Position: other.Position,
		Batch: other.Batch, Source: other.Source, RefusedAt: other.SettledAt, Waited: other.Waited, Unqueued: other.Unqueued, Letter: other.Letter, Dropped: other.Dropped,
	}})
}

// confirmLast makes r, which replaces cur, a record about the last intent that cur lists as a
// conflict, if r is about that one's body. Its entry is gone, and without it r would not tell
// the intent's redelivery that the intent was counted (R11). One that was withdrawn is not
// delivered.
func (r *Record) confirmLast(cur *Record, present int64) {
	if r.Outcome() != OutcomeAccepted || r.BodyHash == "" {
		return
	}
	for _, c := range cur.Conflicts {
		if !c.Unqueued && c.BodyHash == r.BodyHash && c.After(r.Last(present), present) {
			r.IntentID, r.Position, r.Batch, r.Source = c.IntentID, c.Position, c.Batch, c.Source
			r.Waited, r.Unqueued, r.Was = c.Waited, false, OutcomeRejected.String()
		}
	}
}

// joinConflicts merges the conflicts of two records of one order_no, which r replaces. An intent with
// r's body is no conflict any more once that body has an outcome: a replay that is under way, or was
// cancelled, leaves it as it was.
func (r *Record) joinConflicts(earlier, later []Conflict) []Conflict {
	if len(earlier)+len(later) == 0 {
		return nil
	}
	var out []Conflict
	add := func(c Conflict) {
		if c.BodyHash == "" || c.BodyHash != r.BodyHash || !r.decides() {
			out = append(out, c)
		}
	}
	named := (&Record{Conflicts: later}).Listed
	for _, c := range earlier {
		if named(c.IntentID) == nil {
			add(c)
		}
	}
	for _, c := range later {
		add(c)
	}
	for len(out) > maxConflicts { // first those that nobody waits for
		i := slices.IndexFunc(out, func(c Conflict) bool { return c.Dropped || c.Unqueued })
		if i < 0 && len(out) <= mostLetters {
			break
		}
		out = slices.Delete(out, max(i, 0), max(i, 0)+1)
	}
	return out
}
