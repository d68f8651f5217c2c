package settle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"orderpost/internal/order"
)

// Headers of an intent, all optional.
const (
	HeaderIntentID    = "Nats-Msg-Id"
	HeaderBatch       = "Order-Batch"
	HeaderSource      = "Order-Source"
	HeaderDeadline    = "Order-Deadline"
	HeaderNotBefore   = "Order-Not-Before"
	HeaderTraceparent = "traceparent"
	// HeaderOutcome is a header of results and dead letters.
	HeaderOutcome = "Order-Outcome"
)

// Intent is an order that somebody wants created.
type Intent struct {
	// OrderNo names the order; it must be the body's order_no.
	OrderNo string
	// Body is the order as a JSON object.
	Body []byte
	// ID names this submission (Nats-Msg-Id). Publishing again with the same ID
	// is safe. If ID is empty, the broker's sequence and time take its place.
	ID string
	// Batch and Source say where the order came from (import, file and row).
	Batch, Source string
	// Deadline is the time after which the order is not sent. Zero means no
	// deadline.
	Deadline time.Time
	// NotBefore is the time before which the order is not sent. Zero means no
	// such time.
	NotBefore time.Time
	// Lane is the lane of the waiting room in which the intent waits for its turn.
	// An intent without a lane and without a time goes straight to the queue.
	Lane string
	// Traceparent is the W3C trace context of the producer.
	Traceparent string
}

// IntentMessage returns the message that publishes an intent.
func (pr *Producer) IntentMessage(in Intent) *Message {
	msg := &Message{Subject: pr.subjectOf(in), Header: make(Header), Data: in.Body}
	set := func(name, value string) {
		if value != "" {
			msg.Header[name] = []string{value}
		}
	}
	set(HeaderIntentID, in.ID)
	set(HeaderBatch, in.Batch)
	set(HeaderSource, in.Source)
	set(HeaderTraceparent, in.Traceparent)
	if !in.Deadline.IsZero() {
		set(HeaderDeadline, in.Deadline.UTC().Format(time.RFC3339Nano))
	}
	if !in.NotBefore.IsZero() {
		set(HeaderNotBefore, in.NotBefore.UTC().Format(time.RFC3339Nano))
	}
	return msg
}

// readIntent reads a message that any program may have written into d.Intent.
// The error says why the intent can never be sent. readIntent sets what it
// could read nevertheless.
func (wk *Worker) readIntent(d *Delivery) error {
	h := d.msg.Header
	d.Intent = Intent{
		Body: d.msg.Data, ID: IntentID(h.Get(HeaderIntentID), d.Seq, d.StoredAt),
		Batch: order.Truncate(h.Get(HeaderBatch), maxLabel), Source: order.Truncate(h.Get(HeaderSource), maxLabel),
		Traceparent: h.Get(HeaderTraceparent),
	}
	token := strings.TrimPrefix(d.msg.Subject, wk.ledger.cfg.IntentSubjects)
	d.token = FiledToken(token, d.Seq, d.StoredAt)
	name, tokenErr := order.OrderNoFromToken(token)
	if tokenErr != nil {
		name = token
	}
	if unlisted, yes := unlistedName(token, d.Seq, d.StoredAt); yes {
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
			d.msg.Subject, parsed.OrderNo(), wk.ledger.cfg.IntentSubjects+order.Token(parsed.OrderNo()))}
	}
	if text := h.Get(HeaderDeadline); text != "" {
		if d.Intent.Deadline, err = time.Parse(time.RFC3339, text); err != nil {
			return &envelopeError{"bad_deadline", fmt.Sprintf("header %s: %q is not an RFC 3339 time such as 2026-01-31T18:00:00Z", HeaderDeadline, text)}
		}
	}
	if text := h.Get(HeaderNotBefore); text != "" {
		if d.Intent.NotBefore, err = order.ParseNotBefore(text, d.StoredAt); err != nil {
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

// maxLabel bounds the headers that records repeat, in bytes.
const maxLabel = 1024

// IntentID returns the name of a submission (R6): the producer's ID, or the
// sequence together with the time, because a recreated stream counts from 1
// again. It hashes an ID that a record cannot carry byte for byte, because a
// redelivery would not be recognised otherwise.
func IntentID(given string, seq uint64, at time.Time) string {
	switch {
	case given == "":
		return "seq:" + strconv.FormatUint(seq, 10) + "@" + strconv.FormatInt(at.UnixNano(), 10)
	case len(given) > maxLabel || !utf8.ValidString(given):
		sum := sha256.Sum256([]byte(given))
		return "sha256:" + hex.EncodeToString(sum[:])
	default:
		return given
	}
}

// IntentID returns the name of the submission that a stored intent is.
func (m *Message) IntentID() string { return IntentID(m.Header.Get(HeaderIntentID), m.Seq, m.Time) }

// FileToken returns the token that records about a message are filed under: the
// message's own token if order.Token can produce it, otherwise a hash. A
// producer may publish to a subject with wildcard characters, and a lookup by
// such a subject would match other orders. A subject of 4,050 bytes or more
// makes the server close the connection (R4).
func FileToken(token string) string {
	if len(token) <= order.MaxToken && PlainToken(token) {
		return token
	}
	sum := sha256.Sum256([]byte(token))
	return "sha256-" + hex.EncodeToString(sum[:])
}

// unlistedByte is the byte that nats-server's index of subjects refuses (2.15). The
// broker takes any number of intents under a subject with this byte, although it should
// take one.
const unlistedByte = 0x7f

// unlistedName returns the order_no under which an intent is refused whose subject the
// broker does not list. Each has one of its own: two of them under one order_no would be
// handled at the same time, and counted once (R11).
func unlistedName(token string, seq uint64, at time.Time) (name string, yes bool) {
	if strings.IndexByte(token, unlistedByte) < 0 {
		return "", false
	}
	return fmt.Sprintf("unlisted-%d-%d", seq, at.UnixNano()), true
}

// FiledToken returns the token that records about a stored intent are filed under.
func FiledToken(token string, seq uint64, at time.Time) string {
	if name, yes := unlistedName(token, seq, at); yes {
		return order.Token(name)
	}
	return FileToken(token)
}

// PlainToken reports whether order.Token can produce this token.
func PlainToken(token string) bool {
	for i := 0; i < len(token); i++ {
		c := token[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-', c == '%':
		default:
			return false
		}
	}
	return token != ""
}

// PlainSubject reports whether each token of a subject is a PlainToken.
func PlainSubject(subject string) bool {
	for token := range strings.SplitSeq(subject, ".") {
		if !PlainToken(token) {
			return false
		}
	}
	return true
}

// ErrTooLarge is returned for an intent that the broker would refuse, or whose
// dead letter it could not store.
var ErrTooLarge = errors.New("intent is larger than the broker takes")

// HeadersReserve is the size that an intent's headers may have besides a body
// of order.MaxBody, in bytes.
const HeadersReserve = 64 << 10

// MaxIntentSize is the largest message that the intents stream takes, headers
// included. The broker refuses a larger one from a producer that bypasses
// CheckSize.
const MaxIntentSize = order.MaxBody + HeadersReserve

// CheckSize returns ErrTooLarge for an intent that is larger than any order may
// be, or whose dead letter the broker could not store.
func (pr *Producer) CheckSize(in Intent) error {
	size, limit := int64(len(in.Body)), pr.ledger.store.MaxPayload()-LetterReserve
	switch {
	case size > order.MaxBody:
		return fmt.Errorf("%w: order %q has %d bytes, the limit is %d", ErrTooLarge, in.OrderNo, size, order.MaxBody)
	case size > limit:
		return fmt.Errorf("%w: order %q has %d bytes, the limit here is %d (the broker's max_payload less %d for the dead letter's header)",
			ErrTooLarge, in.OrderNo, size, limit, LetterReserve)
	}
	return nil
}
