package notify

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// The types of events.
const (
	// TypeSettled: a submission got its first outcome.
	TypeSettled = "order.settled"
	// TypeUnknown: nobody knows whether the order exists.
	TypeUnknown = "order.unknown"
	// TypeCorrected: a submission's outcome changed.
	TypeCorrected = "order.corrected"
	// TypeHeld: a person stopped all workers.
	TypeHeld = "fleet.held"
	// TypeResumed: the workers go on.
	TypeResumed = "fleet.resumed"
	// TypeImport: every order of an import has its outcome.
	TypeImport = "import.settled"
	// TypeBlocked: orders are due, nobody holds the fleet, and it posts nothing.
	TypeBlocked = "fleet.blocked"
	// TypeNeeded: more waits for a person than before.
	TypeNeeded = "person.needed"
)

// types are all of them. Those of onDemand are sent only if a setting names them.
var (
	onDemand = []string{TypeImport, TypeBlocked, TypeNeeded}
	types    = append([]string{TypeSettled, TypeUnknown, TypeCorrected, TypeHeld, TypeResumed}, onDemand...)
)

// Event is the body of a webhook.
type Event struct {
	Type string `json:"type"`
	// Timestamp is when the outcome was decided, or when what the event tells began.
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

// Order is the data of an event about an order_no. It is what [order.Record] says.
type Order struct {
	OrderNo string `json:"order_no"`
	// Outcome and Created are those of the submission that the result is about.
	Outcome string `json:"outcome"`
	Created string `json:"created"`
	// Was is the outcome before, in an order.corrected.
	Was string `json:"was,omitempty"`
	// Position is the result's place among all results. Of two events about one order_no
	// the one with the higher position is the later one.
	Position uint64 `json:"position"`
	Reason   string `json:"reason,omitempty"`
	// Status and Response are the API's last answer, at most 4096 bytes of it.
	Status   int    `json:"status,omitempty"`
	Response string `json:"response,omitempty"`
	// API are the members of the answer that the rules keep.
	API      map[string]string `json:"api,omitempty"`
	Attempts int               `json:"attempts"`
	// By is the person who settled the order.
	By string `json:"by,omitempty"`
	// Submissions are all that the result tells about, the one that it is about first.
	Submissions []Submission `json:"submissions"`
}

// Submission is what became of one submission of an order_no.
type Submission struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Created string `json:"created"`
	// Conflict says that the order_no belongs to a submission with another body.
	Conflict bool   `json:"conflict,omitempty"`
	Batch    string `json:"batch,omitempty"`
	Source   string `json:"source,omitempty"`
}

// message is an event that is ready to be sent.
type message struct {
	id, kind, orderNo, outcome string
	token                      string // under which its record is filed; empty for events that are about no record
	seq                        uint64
	at                         time.Time // when the broker stored the record
	body                       []byte
	aside                      bool // it failed before while others were taken
}

// messageOf returns the event of a record, nil for a note and for what the filter leaves out.
func messageOf(e settle.Entry, token string, at time.Time, wanted *filter) (*message, error) {
	r := e.Record
	if r.Outcome() == order.OutcomeNone {
		return nil, nil
	}
	subs := submissions(r)
	if !wanted.wants(typeOf(r)) || !wanted.matches(subs, r.Was != "") {
		return nil, nil
	}
	ev := Event{Type: typeOf(r), Timestamp: r.SettledAt, Data: Order{
		OrderNo: r.OrderNo, Outcome: r.Word, Created: r.Outcome().Created(), Was: r.Was, Position: e.Seq,
		Reason: r.Reason, Status: r.Status, Response: r.Response, API: r.API, Attempts: r.Attempts, By: r.By, Submissions: subs}}
	body, err := json.Marshal(ev)
	return &message{id: eventID(r), kind: ev.Type, orderNo: r.OrderNo, outcome: r.Word, token: token, seq: e.Seq, at: at, body: body}, err
}

// typeOf reads from the record alone whether the outcome is a correction.
func typeOf(r *order.Record) string {
	switch {
	case r.Outcome() == order.OutcomeUnknown:
		return TypeUnknown
	case r.Was != "":
		return TypeCorrected
	default:
		return TypeSettled
	}
}

// submissions applies the table of docs/producers.md ("Is it about my submission?").
func submissions(r *order.Record) []Submission {
	outcome := r.Outcome()
	all := []Submission{{ID: r.IntentID, Outcome: r.Word, Created: outcome.Created(), Batch: r.Batch, Source: r.Source}}
	for i := range r.Conflicts {
		c := &r.Conflicts[i]
		s := Submission{ID: c.IntentID, Outcome: r.Word, Created: outcome.Created(), Conflict: true, Batch: c.Batch, Source: c.Source}
		if outcome == order.OutcomeAccepted {
			s.Outcome, s.Created = order.OutcomeRejected.String(), order.OutcomeRejected.Created()
		}
		all = append(all, s)
	}
	return all
}

// eventID names what the record tells. A record that is written again and tells the same,
// such as one whose dead letter was dropped, has the same ID.
func eventID(r *order.Record) string {
	parts := []string{r.OrderNo, r.IntentID, r.Word, r.Was, r.By, r.SettledAt.UTC().Format(time.RFC3339Nano)}
	for i := range r.Conflicts {
		parts = append(parts, r.Conflicts[i].IntentID)
	}
	return idOf(parts...)
}

// idOf makes an ID from what it names.
func idOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "evt_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}
