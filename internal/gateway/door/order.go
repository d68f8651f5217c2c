package door

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Order is one submission.
type Order struct {
	// Body is one JSON object, as docs/producers.md says. The door does not change it.
	Body []byte
	// ID names the submission. Submitting again with the same ID stores nothing twice.
	// At most 1024 bytes; "" = Submit makes one.
	ID string
	// Deadline is the time after which the order is not sent; zero = none.
	Deadline time.Time
	// NotBefore is the time before which it is not sent, at most a year ahead; zero, or
	// a time that was over less than a minute ago = at once.
	NotBefore time.Time
	// Lane is the lane of the waiting room in which the order waits for its turn. ""
	// with a zero NotBefore = it goes straight to the queue.
	Lane string
	// Batch and Source say where the order comes from. The result repeats them. At most
	// 1024 bytes each.
	Batch, Source string
	// Traceparent is the W3C trace context.
	Traceparent string
}

// maxLabel bounds a header of an order, in bytes.
const maxLabel = 1024

// intent checks the order and returns what is published. The error is an *InvalidError.
func (o *Order) intent(now time.Time) (in settle.Intent, parsed *order.Order, err error) {
	parsed, err = order.Parse(o.Body)
	if err != nil {
		return in, nil, invalidBody(err)
	}
	in = settle.Intent{OrderNo: parsed.OrderNo(), Body: o.Body, ID: o.ID, Batch: o.Batch, Source: o.Source,
		Deadline: o.Deadline, Lane: o.Lane, Traceparent: o.Traceparent}
	if o.NotBefore.After(now) {
		in.NotBefore = o.NotBefore
	}
	return in, parsed, o.checkAround(now)
}

// late refuses a time that is over, which is probably mistyped: the order would be sent at
// once. A program may be a minute late.
func (o *Order) late(now time.Time) error {
	if !order.LongPast(o.NotBefore, now) {
		return nil
	}
	return bad("not_before", o.NotBefore.UTC().Format(time.RFC3339)+" is over, so the order would be sent at once", "give a later time, or none")
}

// checkAround checks what comes beside the body.
func (o *Order) checkAround(now time.Time) error {
	for _, label := range []struct{ name, text string }{{"id", o.ID}, {"batch", o.Batch}, {"source", o.Source}, {"traceparent", o.Traceparent}} {
		if err := checkLabel(label.name, label.text); err != nil {
			return err
		}
	}
	if y := o.Deadline.UTC().Year(); !o.Deadline.IsZero() && (y < 0 || y > 9999) {
		return bad("deadline", fmt.Sprintf("the year %d has no RFC 3339 form", y), "give a year from 0 to 9999")
	}
	if o.NotBefore.Sub(now) > order.MaxWait {
		return bad("not_before", o.NotBefore.UTC().Format(time.RFC3339)+" is more than a year ahead", "give an earlier time")
	}
	if o.Lane != "" {
		if err := order.CheckLane(o.Lane); err != nil {
			return bad("lane", err.Error(), "")
		}
	}
	return nil
}

// checkLabel refuses a text that would not come out of a message's header as it went in.
func checkLabel(name, text string) error {
	switch {
	case len(text) > maxLabel:
		return bad(name, fmt.Sprintf("%d bytes, the limit is %d", len(text), maxLabel), "give a shorter one")
	case !utf8.ValidString(text):
		return bad(name, "not UTF-8", "send UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl):
		return bad(name, "a control character in "+fmt.Sprintf("%q", order.Clip(text, 64)), "leave it out")
	case strings.TrimSpace(text) != text:
		return bad(name, "a blank before or after "+fmt.Sprintf("%q", order.Clip(text, 64)), "leave it out")
	}
	return nil
}

// bad says what is wrong with a field of an Order.
func bad(field, seen, do string) error {
	return &InvalidError{Where: field, Seen: seen, Do: do, Code: "bad_" + field}
}

// newID makes the ID of a submission that has none: 130 random bits.
func newID() string { return strings.ToLower(rand.Text()) }
