package order

import (
	"cmp"
	"slices"
	"time"
)

// Retrying is the value of a record's outcome field while the intent is not
// settled. Such a record is a note.
const Retrying = "retrying"

// NoteKind says why a worker wrote a note, a record without an outcome.
type NoteKind uint8

// The kinds of notes.
const (
	NoteNone NoteKind = iota
	// NoteDelayed: the submission's budget is spent on a passing fault. The intent
	// is back in the queue until NotBefore.
	NoteDelayed
	// NoteHandedBack: the submission ended for a reason outside the order, such as
	// a shutdown, a closed gate or a recalled refusal. Its attempts are on record.
	NoteHandedBack
	// NoteAttempt: the write-ahead note of one attempt (policy park) or of the work
	// on a redelivered intent. The broker confirms it before the request is sent.
	// Another delivery that finds it must assume that an attempt was made.
	NoteAttempt
	// NoteSuspect: a worker is about to handle the intent alone, because nothing
	// explains its earlier deliveries.
	NoteSuspect
)

var noteNames = [...]string{"", "delayed", "handed-back", "attempt", "suspect"}

// String returns the word used in records.
func (n NoteKind) String() string { return nameOf(noteNames[:], int(n)) }

// MarshalText implements encoding.TextMarshaler.
func (n NoteKind) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *NoteKind) UnmarshalText(text []byte) error {
	i, err := indexOf("note", noteNames[:], string(text))
	*n = NoteKind(i)
	return err
}

// History summarises the attempts of an order_no over all submissions, replays and
// workers. Notes, results and dead letters carry it. It keeps budgets exact and
// doubt on record.
type History struct {
	// Attempts counts the requests that may have been sent, over all submissions.
	Attempts int `json:"attempts"`
	// Unsure says that some attempt may have created the order and that nothing
	// has resolved the doubt.
	Unsure bool `json:"unsure"`
	// DoubtReason says why, in the words of Record.Reason: of the first such attempt since
	// nothing was in doubt. It has no meaning unless Unsure is true.
	DoubtReason string `json:"doubt_reason,omitempty"`
	// FirstAttemptAt and LastAttemptAt are the start times of the first and the
	// last attempt.
	FirstAttemptAt time.Time `json:"first_attempt_at,omitzero"`
	LastAttemptAt  time.Time `json:"last_attempt_at,omitzero"`
	// LastTimestamp is the timestamp signed last, in milliseconds. No earlier attempt
	// had it, and no later one gets it (NextTimestamp).
	LastTimestamp int64 `json:"last_timestamp,omitempty"`
	// GateWaitMS is the time spent waiting for the gate, in milliseconds. It does
	// not count towards the order's age.
	GateWaitMS int64 `json:"gate_wait_ms,omitempty"`
	// Suspects counts the suspect notes of this intent (R8).
	Suspects int `json:"suspects,omitempty"`
	// Lost counts the unexplained deliveries of this intent since the last delivery
	// that a worker finished.
	Lost int `json:"lost,omitempty"`
	// AbsentAt names the first lookup since the last attempt that found no order; zero = none
	// did, or the order is not in doubt. It is compared for equality alone (R3).
	AbsentAt time.Time `json:"absent_at,omitzero"`
	// Recalled is the answer to an attempt whose refusal was called back (R3).
	Recalled Recalled `json:"recalled,omitzero"`
}

// Attempt is one request as dead letters and logs show it.
type Attempt struct {
	At      time.Time `json:"at"`
	Verdict Verdict   `json:"verdict"`
	// Status is the HTTP status. It is 0 if no answer was read.
	Status int `json:"status,omitempty"`
	// Reason names the rule or the transport phase that led to the verdict.
	Reason string `json:"reason,omitempty"`
	// Answer is the beginning of the answer's body, at most 256 bytes.
	Answer string `json:"answer,omitempty"`
	// Rule is the number of the rule that gave the verdict; 0 = built in.
	Rule int `json:"rule,omitempty"`
	// CalledBack says that the refusal was called back: it is not clear whether the
	// order is to blame or the settings.
	CalledBack bool `json:"called_back,omitempty"`
	// DurationMS is the time from sending to the end of the answer, in milliseconds.
	DurationMS int64 `json:"duration_ms"`
}

// Unsure reports whether the attempt may have created the order.
func (a *Attempt) Unsure() bool { return a.Verdict.LeavesDoubt() || a.CalledBack && a.Rule > 0 }

// Record is the last word on an order_no: an outcome, or a note while the intent is
// not settled. It is the JSON object in the results stream and a public interface
// for readers of results.
type Record struct {
	OrderNo string `json:"order_no"`
	// Word is an outcome's name or [Retrying]; use Outcome and SetOutcome.
	Word string `json:"outcome"`
	// Was is the outcome that this submission had before: a late acceptance, a person or
	// new doubt corrected it. It is empty for a submission's first outcome.
	Was string `json:"was,omitempty"`
	// Note is the kind of note. It is NoteNone if Word is an outcome.
	Note NoteKind `json:"note,omitzero"`

	Verdict Verdict `json:"verdict,omitzero"`
	// Status is the HTTP status of the last answer. It is 0 if there was none.
	Status int `json:"status,omitempty"`
	// Response is the last answer's body, truncated to 4096 bytes.
	Response string `json:"response,omitempty"`
	// Reason is a short, stable phrase for grouping ("rule 2", "refused by status 422").
	Reason string `json:"reason,omitempty"`
	// Said is what the last answer itself says: its code and its message, at most 60
	// characters, with numbers of orders and the like folded. It tells refusals with
	// the same status apart.
	Said string `json:"said,omitempty"`
	// Error is the detail for people.
	Error string `json:"error,omitempty"`
	// API are members of the answer that says that the order exists, as the rules keep them (`keep:`), by their names.
	API map[string]string `json:"api,omitempty"`

	History
	// Position is that of the last copy of the intent that is counted.
	Position
	// SettledAt is when the outcome was decided.
	SettledAt time.Time `json:"settled_at,omitzero"`
	// NotBefore is the earliest time of the next attempt of a delayed intent.
	NotBefore time.Time `json:"not_before,omitzero"`

	Batch  string `json:"batch,omitempty"`
	Source string `json:"source,omitempty"`
	Worker string `json:"worker,omitempty"`
	// IntentID names the intent that this record is about (R6).
	IntentID string `json:"intent_id"`
	// BodyHash is the SHA-256 of the canonical body without timestamp, in hex.
	BodyHash string `json:"body_hash,omitempty"`
	// WriteID identifies this write. A writer that lost the confirmation finds its
	// own write by it (R1).
	WriteID string `json:"write_id"`
	// Waited says that the intent came out of the waiting room (R13).
	Waited bool `json:"waited,omitempty"`
	// Unqueued says that the intent was withdrawn from the waiting room and never
	// reached the intents stream. Settled does not count it.
	Unqueued bool `json:"unqueued,omitempty"`
	// Moved lists earlier intents of the order_no that came out of the waiting
	// room and that this record is no longer about, as BodyID names them, oldest first, at most 10.
	Moved []string `json:"moved,omitempty"`
	// Settled counts the intents of this order_no that have an outcome, this one
	// included (R11).
	Settled int `json:"settled"`
	// Delivered is the broker's delivery count when the note was written. The note
	// explains only the next delivery (R3, R8).
	Delivered uint64 `json:"delivered,omitempty"`
	// DeliveryID names the delivery that a note was written for, or the one that raised Delivered since, and
	// begins with the run of the broker that counted it. Worker and Delivered may be those of another delivery,
	// because a broker that was killed loses its counts. It is empty in outcomes.
	DeliveryID string `json:"delivery_id,omitempty"`
	// Proven says that the answer proved that no order exists under this order_no
	// (a rule with final: true). It ends earlier doubt.
	Proven bool `json:"proven,omitempty"`
	// By names the person who settled the order.
	By string `json:"by,omitempty"`
	// AllowedFor names the one intent that a person allowed although the outcome is
	// unknown (R6); empty = none. New doubt ends the permission.
	AllowedFor string `json:"allowed_for,omitempty"`
	// Letter is the sequence of the intent's dead letter, which holds its body; 0 = it has
	// none, or none yet (R4).
	Letter uint64 `json:"letter,omitempty"`
	// Dropped says that a person dropped the dead letter of this outcome.
	Dropped bool `json:"dropped,omitempty"`
	// Conflicts lists the intents that were not sent, or that the API refused, because
	// this record is about another body, oldest first, at most 100. IntentID may be one.
	Conflicts []Conflict `json:"conflicts,omitempty"`
	// Interventions lists what persons did about the order_no, oldest first, at
	// most 10.
	Interventions []Intervention `json:"interventions,omitempty"`
	// Earlier lists the outcomes of earlier intents that did not create the order or left
	// it in doubt, newest first, at most 10.
	Earlier []Earlier `json:"earlier,omitempty"`
}

// Earlier is the outcome of an earlier intent, such as one that was corrected since.
type Earlier struct {
	IntentID string    `json:"intent_id"`
	Batch    string    `json:"batch,omitempty"`
	Outcome  string    `json:"outcome"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"`
	Attempts int       `json:"attempts"`
	// Letter is the sequence of its dead letter, until a later intent has an outcome other
	// than cancelled; 0 = it has none.
	Letter uint64 `json:"letter,omitempty"`
}

// maxEarlier bounds Record.Earlier.
const maxEarlier = 10

// earlier returns Earlier of the record that replaces r.
func (r *Record) earlier(next *Record) []Earlier {
	list := r.Earlier
	if r.IntentID != next.IntentID && r.Outcome() != OutcomeNone && r.Outcome() != OutcomeAccepted {
		list = append([]Earlier{{r.IntentID, r.Batch, r.Word, r.Reason, r.SettledAt, r.Attempts, r.Letter}}, list...)
	}
	if next.decides() {
		return withoutLetters(list)
	}
	for len(list) > maxEarlier { // the oldest without a letter
		i := len(list) - 1
		if list[i].Letter != 0 {
			i--
		}
		list = slices.Delete(slices.Clone(list), i, i+1)
	}
	return list
}

// EndedBefore reports whether the record replaced an outcome of this intent, as far as it remembers.
func (r *Record) EndedBefore(intentID string) bool {
	return slices.ContainsFunc(r.Earlier, func(e Earlier) bool { return e.IntentID == intentID })
}

// Outcome returns the record's outcome, or OutcomeNone for a note and for nil.
func (r *Record) Outcome() Outcome {
	if r == nil || r.Word == Retrying {
		return OutcomeNone
	}
	var o Outcome
	_ = o.UnmarshalText([]byte(r.Word)) // never act on an unknown word of a newer version
	return o
}

// SetOutcome sets the outcome. OutcomeNone makes the record a note. Unknown is nobody's word, whoever cancelled
// the order before (R3).
func (r *Record) SetOutcome(o Outcome) {
	if o == OutcomeNone {
		r.Word = Retrying
		return
	}
	r.Word, r.Note, r.NotBefore = o.String(), NoteNone, time.Time{}
	if o == OutcomeUnknown {
		r.By = ""
	}
}

// Position names one stored copy of an intent. Seq and EnqueuedAt together identify the copy:
// two copies are the same if both are equal. Sequences tell which of two copies came first.
// EnqueuedAt is the wall clock of the server that stored it, which may be wrong and may be set,
// so it orders nothing (docs/protocol.md#what-may-a-clock-decide).
type Position struct {
	// EnqueuedAt is when the broker stored the copy, by the broker's clock. For an intent that
	// was withdrawn in the waiting room it is the time there.
	EnqueuedAt time.Time `json:"enqueued_at,omitzero"`
	// Seq is the copy's sequence in the intents stream. For an intent that was withdrawn in the
	// waiting room it is the sequence of the copy before; 0 = there was none.
	Seq uint64 `json:"seq,omitempty"`
	// Birth names the life of the stream: when it was created, in Unix nanoseconds. A stream that is
	// created again counts from 1 again. Births are equal or not, and have no order.
	Birth int64 `json:"birth,omitempty"`
}

// Same reports whether p and q name the same stored copy.
func (p Position) Same(q Position) bool { return p.Seq == q.Seq && p.EnqueuedAt.Equal(q.EnqueuedAt) }

// After reports whether p was stored after q. present is the birth of the stream as it is now: of
// two copies of different births, the one of the present stream came later.
func (p Position) After(q Position, present int64) bool {
	if p.Birth != q.Birth {
		return p.Birth == present
	}
	return p.Seq > q.Seq
}

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
// unknown order needs one unless a person settled the order or dropped the letter. Nobody has the body of an
// intent that was withdrawn: the doubt about it is that of an intent before, whose letter Earlier names.
func (r *Record) NeedsLetter() bool {
	return r.Outcome().NeedsLetter() && r.By == "" && !r.Dropped && !r.Unqueued
}

// Resolved reports whether a person said whether the order exists. A cancellation says
// nothing about attempts.
func (r *Record) Resolved() bool {
	return r != nil && r.By != "" && (r.Outcome() == OutcomeAccepted || r.Outcome() == OutcomeRejected)
}

// TakeBack changes an outcome that says "not created" to unknown: a worker may have posted the order. The
// feeder that withdrew the intent was frozen, and another one had moved it (R13), or the worker had lost its claim
// when it was proven that nothing exists (R1). The doubt is about the posted body: a producer may have
// used the id of an intent that waits for another body.
func (r *Record) TakeBack(posted string) {
	was := r.Outcome()
	r.SetOutcome(OutcomeUnknown)
	if r.Reason, r.Proven = "withdrawn while a worker may have posted it", false; was != OutcomeCancelled {
		r.Reason = "posted by a worker that had lost its claim, after it was proven that it did not exist"
	}
	r.Doubt(r.Reason)
	r.BodyHash = cmp.Or(posted, r.BodyHash)
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
// the same delivery.
func (r *Record) SameDelivery(other *Record) bool { return r.DeliveryID == other.DeliveryID }

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
