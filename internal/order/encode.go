package order

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendJSON appends the record as JSON. The result equals that of encoding/json at
// a fraction of the cost, which matters because every order has a record.
func (r *Record) AppendJSON(dst []byte) ([]byte, error) {
	e := encoder{out: append(dst, '{')}
	e.text("order_no", r.OrderNo, true)
	e.text("outcome", r.Word, true)
	e.text("was", r.Was, false)
	e.text("note", r.Note.String(), false)
	e.text("verdict", r.Verdict.String(), false)
	e.number("status", int64(r.Status), false)
	e.text("response", r.Response, false)
	e.text("reason", r.Reason, false)
	e.text("said", r.Said, false)
	e.text("error", r.Error, false)
	if len(r.API) > 0 {
		e.list("api", r.API)
	}
	e.history(&r.History)
	e.time("enqueued_at", r.EnqueuedAt)
	e.number("seq", int64(r.Seq), false)
	e.number("birth", r.Birth, false)
	e.time("settled_at", r.SettledAt)
	e.time("not_before", r.NotBefore)
	e.text("batch", r.Batch, false)
	e.text("source", r.Source, false)
	e.text("worker", r.Worker, false)
	e.text("intent_id", r.IntentID, true)
	e.text("body_hash", r.BodyHash, false)
	e.text("write_id", r.WriteID, true)
	e.flag("waited", r.Waited, false)
	e.flag("unqueued", r.Unqueued, false)
	if len(r.Moved) > 0 {
		e.list("moved", r.Moved)
	}
	e.number("settled", int64(r.Settled), true)
	e.number("delivered", int64(r.Delivered), false)
	e.text("delivery_id", r.DeliveryID, false)
	e.flag("proven", r.Proven, false)
	e.text("by", r.By, false)
	e.text("allowed_for", r.AllowedFor, false)
	e.number("letter", int64(r.Letter), false)
	e.flag("dropped", r.Dropped, false)
	if len(r.Conflicts) > 0 {
		e.list("conflicts", r.Conflicts)
	}
	if len(r.Interventions) > 0 {
		e.list("interventions", r.Interventions)
	}
	if len(r.Earlier) > 0 {
		e.list("earlier", r.Earlier)
	}
	if e.err != nil { // invalid UTF-8, or a year beyond 9999
		plain, err := json.Marshal(r)
		return append(dst, plain...), err
	}
	return append(e.out, '}'), nil
}

func (e *encoder) history(h *History) {
	e.number("attempts", int64(h.Attempts), true)
	e.flag("unsure", h.Unsure, true)
	e.text("doubt_reason", h.DoubtReason, false)
	e.time("first_attempt_at", h.FirstAttemptAt)
	e.time("last_attempt_at", h.LastAttemptAt)
	e.number("last_timestamp", h.LastTimestamp, false)
	e.number("gate_wait_ms", h.GateWaitMS, false)
	e.number("suspects", int64(h.Suspects), false)
	e.number("lost", int64(h.Lost), false)
	e.time("absent_at", h.AbsentAt)
	if h.Recalled != (Recalled{}) {
		e.list("recalled", &h.Recalled)
	}
}

// encoder appends the members of an object. It omits empty values, except those
// with always set.
type encoder struct {
	out []byte
	err error
}

func (e *encoder) name(name string) {
	if e.out[len(e.out)-1] != '{' {
		e.out = append(e.out, ',')
	}
	e.out = append(append(append(e.out, '"'), name...), '"', ':')
}

func (e *encoder) text(name, value string, always bool) {
	if e.err != nil || value == "" && !always {
		return
	}
	e.name(name)
	e.out, e.err = jsontext.AppendQuote(e.out, value)
}

func (e *encoder) number(name string, value int64, always bool) {
	if value != 0 || always {
		e.name(name)
		e.out = strconv.AppendInt(e.out, value, 10)
	}
}

// list appends a list or an object with encoding/json, since few records have one.
func (e *encoder) list(name string, value any) {
	if e.err != nil {
		return
	}
	var list []byte
	list, e.err = json.Marshal(value)
	e.name(name)
	e.out = append(e.out, list...)
}

func (e *encoder) flag(name string, value, always bool) {
	if value || always {
		e.name(name)
		e.out = strconv.AppendBool(e.out, value)
	}
}

func (e *encoder) time(name string, value time.Time) {
	if e.err != nil || value.IsZero() {
		return
	}
	e.name(name)
	e.out = append(e.out, '"')
	e.out, e.err = value.AppendText(e.out)
	e.out = append(e.out, '"')
}

// maxMoved bounds Record.Moved.
const maxMoved = 10

// shownHash is how many characters of a body's hash BodyID has: enough that nobody makes another body with them.
const shownHash = 16

// BodyID names an intent by its ID together with its body, because a producer may use an ID that is not its
// own: ID@HASH, with the first 16 characters of the body's hash.
func BodyID(intentID, bodyHash string) string {
	return intentID + "@" + bodyHash[:min(len(bodyHash), shownHash)]
}

// Knows reports whether the intent with this ID and this body was in the intents stream before,
// as far as the record tells (R13): the record is about it, refused it, or
// replaced its record. It is false for nil.
func (r *Record) Knows(intentID, bodyHash string) bool {
	return r != nil && ((r.IntentID == intentID || r.Listed(intentID) != nil) && r.bodyOf(intentID) == bodyHash ||
		slices.Contains(r.Moved, BodyID(intentID, bodyHash)))
}

// OtherBody reports whether the record tells that the intent with this ID had another body, and not that one of
// this ID and this body was moved, too.
func (r *Record) OtherBody(intentID, bodyHash string) bool {
	switch {
	case r == nil || slices.Contains(r.Moved, BodyID(intentID, bodyHash)):
		return false
	case r.IntentID == intentID || r.Listed(intentID) != nil:
		return r.bodyOf(intentID) != bodyHash
	default:
		return slices.ContainsFunc(r.Moved, func(id string) bool {
			hash, found := strings.CutPrefix(id, intentID+"@")
			return found && !strings.Contains(hash, "@")
		})
	}
}

// bodyOf returns the body hash of the intent with this ID, which the record is about or lists.
func (r *Record) bodyOf(intentID string) string {
	if c := r.Listed(intentID); c != nil {
		return c.BodyHash
	}
	return r.BodyHash
}

// movedBefore returns Record.Moved for the record that replaces cur. Without it, a
// feeder that was cut off between the publish and the removal could not tell, once
// another intent followed, that its intent was settled.
func movedBefore(cur, next *Record) []string {
	moved := cur.Moved
	forget := func(intentID, bodyHash string, waited bool) {
		id := BodyID(intentID, bodyHash)
		if waited && intentID != next.IntentID && next.Listed(intentID) == nil && !slices.Contains(moved, id) {
			moved = append(slices.Clone(moved), id)
		}
	}
	for _, c := range cur.Conflicts {
		forget(c.IntentID, c.BodyHash, c.Waited)
	}
	forget(cur.IntentID, cur.BodyHash, cur.Waited)
	return moved[max(0, len(moved)-maxMoved):]
}
