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

// Letters returns the sequences of the dead letters that the record names, each of which holds
// the body of an intent that needs a person. A letter that no record names counts for nothing (R4).
func (r *Record) Letters() (seqs []uint64) {
	if r == nil {
		return nil
	}
	add := func(seq uint64) {
		if seq != 0 {
			seqs = append(seqs, seq)
		}
	}
	add(r.Letter)
	for i := range r.Conflicts {
		add(r.Conflicts[i].Letter)
	}
	for i := range r.Earlier {
		add(r.Earlier[i].Letter)
	}
	return seqs
}

// Names reports whether the record names a dead letter.
func (r *Record) Names(letter uint64) bool { return slices.Contains(r.Letters(), letter) }

// LetterOf returns the sequence of the dead letter of an intent that the record settles; 0 = it has none.
func (r *Record) LetterOf(intentID string) uint64 {
	if c := r.Listed(intentID); c != nil {
		return c.Letter
	}
	if r != nil && r.IntentID == intentID {
		return r.Letter
	}
	return 0
}

// NeedsLetterOf reports whether an intent that the record settles must have a dead letter: it failed, or was
// refused for the body of another one, and no person settled it or dropped its letter.
func (r *Record) NeedsLetterOf(intentID string) bool {
	if !r.Settles(intentID) {
		return false
	}
	if c := r.Listed(intentID); c != nil {
		return !c.Dropped && !c.Unqueued
	}
	return r.NeedsLetter()
}

// WithLetter returns a copy of the record that names another dead letter of an intent that it settles.
func (r *Record) WithLetter(intentID string, seq uint64) *Record {
	next := *r
	next.Conflicts = slices.Clone(r.Conflicts)
	if c := next.Listed(intentID); c != nil {
		c.Letter = seq
	} else {
		next.Letter, next.Earlier = seq, withoutLetters(r.Earlier)
		next.Conflicts = next.joinConflicts(nil, next.Conflicts)
	}
	return &next
}

// WithoutLetter returns a copy of the record that does not name a dead letter, because a person dropped it.
func (r *Record) WithoutLetter(seq uint64) *Record {
	next := *r
	next.Conflicts, next.Earlier = slices.Clone(r.Conflicts), slices.Clone(r.Earlier)
	if next.Letter == seq {
		next.Letter, next.Dropped = 0, true
	}
	for i := range next.Conflicts {
		if c := &next.Conflicts[i]; c.Letter == seq {
			c.Letter, c.Dropped = 0, true
		}
	}
	for i := range next.Earlier {
		if e := &next.Earlier[i]; e.Letter == seq {
			e.Letter = 0
		}
	}
	return &next
}

// Erased returns a copy of the record without what the API answered, what persons noted, and the letters that it names.
// What keeps the order from being created twice stays: its outcome, its doubt, and the hashes of bodies.
func (r *Record) Erased() *Record {
	next := *r
	for _, seq := range r.Letters() {
		next = *next.WithoutLetter(seq)
	}
	next.Response, next.Said, next.Error, next.API, next.Recalled = "", "", "", nil, Recalled{}
	next.Interventions = slices.Clone(r.Interventions)
	for i := range next.Interventions {
		next.Interventions[i].Note = ""
	}
	return &next
}

// decides reports whether the record's outcome takes the place of the failures before it: the order exists, or
// a person said what became of it, or its own letter holds the body now. A note may end without an outcome, and a
// cancellation takes a correction back, also where doubt is left.
func (r *Record) decides() bool {
	return r.Outcome() == OutcomeAccepted || r.Resolved() || r.Letter != 0 || r.Dropped
}

func withoutLetters(list []Earlier) []Earlier {
	if !slices.ContainsFunc(list, func(e Earlier) bool { return e.Letter != 0 }) {
		return list[:min(len(list), maxEarlier)]
	}
	list = slices.Clone(list[:min(len(list), maxEarlier)])
	for i := range list {
		list[i].Letter = 0
	}
	return list
}

// Refused returns the entry in Conflicts that names a dead letter, or nil.
func (r *Record) Refused(letter uint64) *Conflict {
	i := slices.IndexFunc(r.Conflicts, func(c Conflict) bool { return c.Letter == letter })
	if i < 0 {
		return nil
	}
	return &r.Conflicts[i]
}

// EarlierWith returns the entry in Earlier that names a dead letter, zero if none does.
func (r *Record) EarlierWith(letter uint64) (e Earlier) {
	if i := slices.IndexFunc(r.Earlier, func(e Earlier) bool { return e.Letter == letter }); i >= 0 {
		e = r.Earlier[i]
	}
	return e
}
