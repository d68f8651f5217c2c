package settle

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"orderpost/internal/order"
)

// LetterReserve is how much of the broker's max_payload a letter's header may
// take besides the body, in bytes. Intake refuses bodies that leave less. The
// tail of a foreign body that leaves less is stored in a second message.
const LetterReserve = 64 << 10

// Bounds of what a letter keeps besides the body.
const (
	maxTrail       = 50
	maxEarlier     = 10
	maxHeaderBytes = 16 << 10
)

// Letter is a dead letter: an order that needs a person, with everything that
// is known about it.
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
	// Replays counts how often the letter's order was replayed.
	Replays int `json:"replays,omitempty"`
	// Earlier lists the letters that this one replaced, newest first, at most
	// 10.
	Earlier []Earlier `json:"earlier,omitempty"`
	// Tail is the hash under which the body's last bytes are stored in a second
	// message; "" if the body is whole.
	Tail string `json:"tail,omitempty"`

	// Body is the intent's body as received, JSON or not.
	Body []byte `json:"-"`
	// Seq is the letter's sequence in the dead-letter stream.
	Seq uint64 `json:"-"`

	// FiledUnder is the subject token that the letter is filed under. It is set
	// for a letter that was listed.
	FiledUnder string `json:"-"`
}

// Earlier is a letter that was replaced, or an intent that was withheld because
// the order's outcome was unknown.
type Earlier struct {
	IntentID string        `json:"intent_id"`
	Outcome  order.Outcome `json:"outcome"`
	Reason   string        `json:"reason,omitempty"`
	At       time.Time     `json:"at"`
	Attempts int           `json:"attempts"`
	BodyHash string        `json:"body_hash,omitempty"`
}

// EarlierOutcomes returns the outcomes of an order's earlier submissions, newest first. The
// letter knows those of its replays, the record those of corrections, too, also if the order
// was accepted since. Both may be nil.
func EarlierOutcomes(r *order.Record, l *Letter) []order.Earlier {
	var list []order.Earlier
	if r != nil {
		list = slices.Clone(r.Earlier)
	}
	if l != nil {
		for _, e := range l.Earlier {
			if !slices.ContainsFunc(list, func(known order.Earlier) bool { return known.IntentID == e.IntentID }) {
				list = append(list, order.Earlier{IntentID: e.IntentID, Outcome: e.Outcome.String(), Reason: e.Reason, At: e.At, Attempts: e.Attempts})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b order.Earlier) int { return b.At.Compare(a.At) })
	return list
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

// Headers in which a replayed intent carries the history of its letters. The
// letter is gone by the time a new one is filed.
const (
	headerReplays = "Order-Replays"
	headerEarlier = "Order-Earlier"
	// maxEarlierHeader bounds headerEarlier, in bytes.
	maxEarlierHeader = 8 << 10
)

// inheritFrom adds the history of the letter that l replaces.
func (l *Letter) inheritFrom(have *Letter) {
	e := Earlier{IntentID: have.IntentID, Outcome: have.Outcome, Reason: have.Reason, At: have.FiledAt,
		Attempts: have.Attempts, BodyHash: have.BodyHash}
	l.Earlier = append([]Earlier{e}, have.Earlier...)
	if len(l.Earlier) > maxEarlier {
		l.Earlier = l.Earlier[:maxEarlier]
	}
	l.Replays = max(l.Replays, have.Replays)
}

// inheritFromHeader reads the history of earlier letters from a replayed
// intent's headers. It ignores values that are not such a history.
func (l *Letter) inheritFromHeader(h Header) {
	if n, err := strconv.Atoi(h.Get(headerReplays)); err == nil && n > 0 {
		l.Replays = n
	}
	var earlier []Earlier
	if json.Unmarshal([]byte(h.Get(headerEarlier)), &earlier) == nil {
		l.Earlier = earlier[:min(len(earlier), maxEarlier)]
	}
	delete(l.Headers, headerReplays)
	delete(l.Headers, headerEarlier)
}
