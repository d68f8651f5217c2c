package settle

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"orderpost/internal/order"
)

// readIntent reads a message that any program may have written into d.Intent.
// The error says why the intent can never be sent. readIntent sets what it
// could read nevertheless.
func (lg *Ledger) readIntent(d *Delivery) error {
	h := d.msg.Header
	d.Intent = Intent{
		Body: d.msg.Data, ID: IntentID(h.Get(HeaderIntentID), d.Seq, d.EnqueuedAt),
		Batch: order.Truncate(h.Get(HeaderBatch), maxLabel), Source: order.Truncate(h.Get(HeaderSource), maxLabel),
		Traceparent: h.Get(HeaderTraceparent),
	}
	token := strings.TrimPrefix(d.msg.Subject, lg.cfg.IntentSubjects)
	d.token = FiledToken(token, d.Seq, d.EnqueuedAt)
	name, tokenErr := order.OrderNoFromToken(token)
	if tokenErr != nil {
		name = token
	}
	if unlisted, yes := unlistedName(token, d.Seq, d.EnqueuedAt); yes {
		name = unlisted
	}
	d.Intent.OrderNo = name

	parsed, err := order.Parse(d.Intent.Body)
	if err != nil {
		return err
	}
	d.Order = parsed
	if tokenErr != nil || token != order.Token(parsed.OrderNo()) {
		return &envelopeError{"wrong_subject", fmt.Sprintf("subject: the message was published to %q, but the order_no %q of its body belongs to %q; publish it there",
			d.msg.Subject, parsed.OrderNo(), lg.cfg.IntentSubjects+order.Token(parsed.OrderNo()))}
	}
	if text := h.Get(HeaderDeadline); text != "" {
		if d.Intent.Deadline, err = time.Parse(time.RFC3339, text); err != nil {
			return &envelopeError{"bad_deadline", fmt.Sprintf("header %s: %q is not an RFC 3339 time such as 2026-01-31T18:00:00Z", HeaderDeadline, text)}
		}
	}
	if text := h.Get(HeaderNotBefore); text != "" {
		if d.Intent.NotBefore, err = order.ParseNotBefore(text, d.EnqueuedAt); err != nil {
			return &envelopeError{"bad_not_before", fmt.Sprintf("header %s: %v", HeaderNotBefore, err)}
		}
	}
	return nil
}

// envelopeError means that the body is valid but its subject or headers are
// not.
type envelopeError struct{ code, text string }

// Error returns the detail for people.
func (e *envelopeError) Error() string { return e.text }

var arrayIndex = regexp.MustCompile(`\[\d+\]`)

// InvalidReason returns why an intent can never be sent, as a phrase that
// groups it with others: the broken rule and the path ("invalid: wrong_type,
// timeout").
func (d *Delivery) InvalidReason() string {
	var body *order.Error
	var around *envelopeError
	switch {
	case errors.As(d.Invalid, &body) && body.Path != "":
		return "invalid: " + string(body.Code) + ", " + arrayIndex.ReplaceAllString(body.Path, "[]")
	case errors.As(d.Invalid, &body):
		return "invalid: " + string(body.Code)
	case errors.As(d.Invalid, &around):
		return "invalid: " + around.code
	default:
		return "invalid intent"
	}
}
