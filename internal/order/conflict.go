package order

import "time"

// maxConflicts bounds how many refused submissions a record remembers.
const maxConflicts = 10

// Conflict is a submission that was not sent, since its order_no belongs to
// another one with another body: the one that the record is about.
type Conflict struct {
	IntentID string `json:"intent_id"`
	// BodyHash is empty for a body that can never be sent.
	BodyHash   string    `json:"body_hash,omitempty"`
	EnqueuedAt time.Time `json:"enqueued_at,omitzero"`
	Batch      string    `json:"batch,omitempty"`
	Source     string    `json:"source,omitempty"`
	// RefusedAt is when a worker found the conflict.
	RefusedAt time.Time `json:"refused_at,omitzero"`
}

// ConflictOf gives the conflict that this submission ended with; nil where there
// is none. Only an acceptance settles a conflict: while the outcome is another
// one, a submission that was put aside shares it.
func (r *Record) ConflictOf(intentID string) *Conflict {
	if r.Outcome() != OutcomeAccepted {
		return nil
	}
	return r.listed(intentID)
}

// Settles says whether the record holds the outcome of this submission: its own,
// or a conflict.
func (r *Record) Settles(intentID string) bool {
	return r.Outcome() != OutcomeNone && (r.IntentID == intentID || r.ConflictOf(intentID) != nil)
}

// LastEnqueued is when the newest submission that the record knows was stored.
func (r *Record) LastEnqueued() time.Time {
	at := r.EnqueuedAt
	for i := range r.Conflicts {
		if c := r.Conflicts[i].EnqueuedAt; c.After(at) {
			at = c
		}
	}
	return at
}

func (r *Record) listed(intentID string) *Conflict {
	for i := range r.Conflicts {
		if r.Conflicts[i].IntentID == intentID {
			return &r.Conflicts[i]
		}
	}
	return nil
}

// Refuse adds the submission that other is about to the conflicts of r, unless
// other asks for the same body. The oldest conflicts give way.
func (r *Record) Refuse(other *Record) {
	r.Conflicts = joinConflicts(r.BodyHash, r.Conflicts, []Conflict{{
		IntentID: other.IntentID, BodyHash: other.BodyHash, EnqueuedAt: other.EnqueuedAt,
		Batch: other.Batch, Source: other.Source, RefusedAt: other.SettledAt,
	}})
}

// joinConflicts gives the conflicts of two records of one order_no, those of
// later last. What has the body that the record is about now is none.
func joinConflicts(bodyHash string, earlier, later []Conflict) []Conflict {
	if len(earlier)+len(later) == 0 {
		return nil
	}
	var out []Conflict
	add := func(c Conflict) {
		if c.BodyHash == "" || c.BodyHash != bodyHash {
			out = append(out, c)
		}
	}
	named := (&Record{Conflicts: later}).listed
	for _, c := range earlier {
		if named(c.IntentID) == nil {
			add(c)
		}
	}
	for _, c := range later {
		add(c)
	}
	return out[max(0, len(out)-maxConflicts):]
}
