package settle

import (
	"cmp"
	"strings"
	"time"

	"orderpost/internal/order"
)

// LetterReserve is how much of the broker's max_payload a letter's header may
// take besides the body, in bytes. Intake refuses bodies that leave less. The
// header of a foreign body that leaves less is cut.
const LetterReserve = 64 << 10

// Bounds of what a letter keeps besides the body.
const (
	maxTrail       = 50
	maxHeaderBytes = 16 << 10
)

// Letter is a dead letter: the body of an intent that needs a person, with everything that
// was known about it when it was stored. It never changes, and counts for nothing unless the record of
// its order_no names it: the record says what became of the intent (About).
type Letter struct {
	OrderNo  string        `json:"order_no"`
	Outcome  order.Outcome `json:"outcome"`
	Reason   string        `json:"reason,omitempty"`
	Error    string        `json:"error,omitempty"`
	Verdict  order.Verdict `json:"verdict,omitzero"`
	Status   int           `json:"status,omitempty"`
	Response string        `json:"response,omitempty"`
	// Said is what the answer itself says (order.Record.Said).
	Said string `json:"said,omitempty"`
	order.History
	// Trail lists the attempts of the last submission, oldest first, at most 50.
	Trail []order.Attempt `json:"trail,omitempty"`

	IntentID string `json:"intent_id"`
	BodyHash string `json:"body_hash,omitempty"`
	Batch    string `json:"batch,omitempty"`
	Source   string `json:"source,omitempty"`
	Worker   string `json:"worker,omitempty"`
	// Position is that of the intent.
	order.Position
	FiledAt time.Time `json:"filed_at"`

	// Subject and Headers are the intent's own, stored as data. A live
	// Nats-Msg-Id would make the broker swallow a second letter.
	Subject string              `json:"subject"`
	Headers map[string][]string `json:"headers,omitempty"`
	// RawSubject and RawHeaders hold what is not UTF-8. Only the stored form
	// has them.
	RawSubject []byte      `json:"raw_subject,omitempty"`
	RawHeaders []RawHeader `json:"raw_headers,omitempty"`

	// Conflict says that the order_no was accepted before with another body.
	// The result stays accepted. This letter is about the later intent.
	Conflict bool `json:"conflict,omitempty"`
	// Replays counts the replays among the order's last submissions, this one included, as far as the record
	// remembers them.
	Replays int `json:"-"`

	// Body is the intent's body as received, JSON or not.
	Body []byte `json:"-"`
	// Seq is the letter's sequence in the dead-letter stream.
	Seq uint64 `json:"-"`

	seen string // write id of the record that About was given

	// FiledUnder is the subject token that the letter is filed under. It is set
	// for a letter that was read.
	FiledUnder string `json:"-"`
}

// RawHeader is a header that JSON cannot carry as text.
type RawHeader struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

// Why letters say that an intent was not submitted.
const (
	reasonConflict = "conflict: the order_no was accepted before with another body"
	reasonWithheld = "withheld: the order_no's earlier outcome is unknown, and nobody allowed another attempt"
)

// About returns the letter with what a record says about its intent by now. It returns nil if the
// record does not name the letter, which then counts for nothing (R4). A letter whose header was cut
// gets from the record what it lacks.
func (l *Letter) About(r *order.Record) *Letter {
	if l == nil || r == nil || !r.Names(l.Seq) {
		return nil
	}
	now := *l
	switch c := r.Refused(l.Seq); {
	case r.Letter == l.Seq:
		now.fill(r.IntentID, r.BodyHash, r.Batch, r.Source, r.Position, r.SettledAt)
		now.Outcome, now.Reason, now.Error, now.Verdict, now.Status, now.Response, now.Said, now.History =
			r.Outcome(), r.Reason, r.Error, r.Verdict, r.Status, r.Response, r.Said, r.History
	case c == nil: // a correction is under way, or was cancelled
		i := r.EarlierWith(l.Seq)
		now.fill(i.IntentID, "", i.Batch, "", order.Position{}, i.At)
		now.Outcome, now.Reason, now.Attempts = order.OutcomeRejected, i.Reason, i.Attempts
		_ = now.Outcome.UnmarshalText([]byte(i.Outcome)) // else another version's word
	default:
		now.fill(c.IntentID, c.BodyHash, c.Batch, c.Source, c.Position, c.RefusedAt)
		now.Outcome, now.Unsure = order.OutcomeRejected, r.Doubtful()
		switch now.Conflict = r.Outcome() == order.OutcomeAccepted; {
		case now.Conflict:
			now.Reason = reasonConflict
		case now.Unsure:
			now.Outcome = order.OutcomeUnknown
		}
	}
	now.OrderNo, now.seen = r.OrderNo, r.WriteID
	for _, e := range append([]order.Earlier{{IntentID: r.IntentID}}, r.Earlier...) {
		if strings.HasPrefix(e.IntentID, replayPrefix) {
			now.Replays++
		}
	}
	return &now
}

// fill sets what a letter says of its intent, if its header was cut.
func (l *Letter) fill(intentID, bodyHash, batch, source string, at order.Position, filed time.Time) {
	if l.IntentID == "" {
		l.IntentID, l.BodyHash, l.Batch, l.Source, l.Position, l.FiledAt = intentID, cmp.Or(bodyHash, bodyHashOf(l.Body)), batch, source, at, filed
	}
}
