package order

import "slices"

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
