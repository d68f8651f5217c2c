package order

import "time"

// Retrying is the word that stands in a record's outcome while the intent is
// not settled: such a record is a note, not an outcome.
const Retrying = "retrying"

// NoteKind says why a note (a record without an outcome) was written.
type NoteKind uint8

// The kinds of notes.
const (
	NoteNone NoteKind = iota
	// NoteDelayed: the visit's budget is spent on a passing fault; the intent
	// is back in the queue until NotBefore.
	NoteDelayed
	// NoteHandedBack: the visit ended for reasons that are not the order's
	// (shutdown, a closed gate, a recalled refusal); what it did is accounted for.
	NoteHandedBack
	// NoteAttempt: write-ahead of one attempt (policy park) or of the work on a
	// redelivered intent, confirmed before the request leaves. Found by another
	// delivery, it means that an attempt may have happened.
	NoteAttempt
	// NoteSuspect: the intent is about to be handled alone, since nothing
	// explains its earlier deliveries.
	NoteSuspect
)

var noteNames = [...]string{"", "delayed", "handed-back", "attempt", "suspect"}

// String gives the word used in records.
func (n NoteKind) String() string { return nameOf(noteNames[:], int(n)) }

// MarshalText implements encoding.TextMarshaler.
func (n NoteKind) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *NoteKind) UnmarshalText(text []byte) error {
	i, err := indexOf("note", noteNames[:], string(text))
	*n = NoteKind(i)
	return err
}

// History is what is known of an order_no's attempts, across visits, replays
// and workers. It is carried by notes, results and dead letters, so that
// budgets are exact and doubt is never forgotten.
type History struct {
	// Attempts counts the requests that may have left, over all visits.
	Attempts int `json:"attempts"`
	// Unsure: some attempt may have created the order, and nothing has settled it.
	Unsure bool `json:"unsure"`
	// FirstAttemptAt and LastAttemptAt are the times at which an attempt was begun.
	FirstAttemptAt time.Time `json:"first_attempt_at,omitzero"`
	LastAttemptAt  time.Time `json:"last_attempt_at,omitzero"`
	// LastTimestamp is the timestamp (ms) signed last; the next one is greater
	// (signing rule 13).
	LastTimestamp int64 `json:"last_timestamp,omitempty"`
	// GateWaitMS is the time in milliseconds spent waiting for the gate, which
	// does not count towards the order's age.
	GateWaitMS int64 `json:"gate_wait_ms,omitempty"`
	// Suspects counts the suspect notes of this intent (protocol R8).
	Suspects int `json:"suspects,omitempty"`
	// Lost counts the deliveries of this intent that nothing explains, since
	// the last one that was brought to an end.
	Lost int `json:"lost,omitempty"`
}

// Attempt is one request as it is remembered in dead letters and logs.
type Attempt struct {
	At      time.Time `json:"at"`
	Verdict Verdict   `json:"verdict"`
	// Status is the HTTP status; 0 where no answer was read.
	Status int `json:"status,omitempty"`
	// Reason names the rule or the transport phase that led to the verdict.
	Reason string `json:"reason,omitempty"`
	// Answer is the beginning of the answer's body, 256 bytes at most.
	Answer string `json:"answer,omitempty"`
	// DurationMS is the time from sending to the end of the answer, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
}

// Record is the last word on an order_no: an outcome, or a note that it is
// being worked on. It is the JSON object stored in the results stream, and the
// public interface for whoever reads results.
type Record struct {
	OrderNo string `json:"order_no"`
	// Word is an outcome's name or [Retrying]; use Outcome and SetOutcome.
	Word string `json:"outcome"`
	// Note is the kind of note; NoteNone where Word is an outcome.
	Note NoteKind `json:"note,omitzero"`

	Verdict Verdict `json:"verdict,omitzero"`
	// Status is the HTTP status of the last answer; 0 where there was none.
	Status int `json:"status,omitempty"`
	// Response is the last answer's body, bounded (ORDERPOST_RESPONSE_LIMIT).
	Response string `json:"response,omitempty"`
	// Reason is a short, stable phrase for grouping ("rule 2", "refused by status 422").
	Reason string `json:"reason,omitempty"`
	// Error is the detail for people.
	Error string `json:"error,omitempty"`

	History
	EnqueuedAt time.Time `json:"enqueued_at,omitzero"`
	// SettledAt is when the outcome was decided.
	SettledAt time.Time `json:"settled_at,omitzero"`
	// NotBefore is the earliest time of the next attempt of a delayed intent.
	NotBefore time.Time `json:"not_before,omitzero"`

	Batch  string `json:"batch,omitempty"`
	Source string `json:"source,omitempty"`
	Worker string `json:"worker,omitempty"`
	// IntentID names the submission that this record is about (protocol R6).
	IntentID string `json:"intent_id"`
	// BodyHash is the SHA-256 of the canonical body without timestamp, in hex.
	BodyHash string `json:"body_hash,omitempty"`
	// WriteID names this write, so that a writer whose confirmation got lost
	// recognises its own (protocol R1).
	WriteID string `json:"write_id"`
	// Settled counts the intents of this order_no that have an outcome, this
	// one included (protocol R11).
	Settled int `json:"settled"`
	// Delivered is the broker's delivery count when a note was written: a later
	// delivery is explained by the note only if it is the next one (R3, R8).
	Delivered uint64 `json:"delivered,omitempty"`
	// Proven: the answer proved that nothing exists at the API under this
	// order_no (a rule with final: true), which ends earlier doubt.
	Proven bool `json:"proven,omitempty"`
	// By is set where a person settled the order.
	By string `json:"by,omitempty"`
	// Allowed: a person allowed the next intent although the outcome is unknown
	// (R6). A later attempt that is in doubt itself ends the permission.
	Allowed bool `json:"allowed,omitempty"`
	// AllowedFor is the one intent that the permission is for; empty = any.
	AllowedFor string `json:"allowed_for,omitempty"`
	// Dropped: a person dropped the dead letter of this outcome.
	Dropped bool `json:"dropped,omitempty"`
	// Conflicts lists the submissions of this order_no that were not sent, since
	// this record is about another body, oldest first, at most 10.
	Conflicts []Conflict `json:"conflicts,omitempty"`
	// Interventions lists what persons did about the order_no, oldest first, at
	// most 10.
	Interventions []Intervention `json:"interventions,omitempty"`
}

// Outcome reads the record's outcome; OutcomeNone for a note.
func (r *Record) Outcome() Outcome {
	if r == nil || r.Word == Retrying {
		return OutcomeNone
	}
	var o Outcome
	_ = o.UnmarshalText([]byte(r.Word)) // an unknown word of a newer version is no outcome that we may act on
	return o
}

// SetOutcome makes the record an outcome, or a note for OutcomeNone.
func (r *Record) SetOutcome(o Outcome) {
	if o == OutcomeNone {
		r.Word = Retrying
		return
	}
	r.Word, r.Note, r.NotBefore = o.String(), NoteNone, time.Time{}
}
