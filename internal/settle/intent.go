package settle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	HeaderLookupUntil = "Order-Lookup-Until"
	HeaderTraceparent = "traceparent"
	// HeaderOutcome is a header of results and dead letters.
	HeaderOutcome = "Order-Outcome"
)

// HeaderWaited marks an intent that came out of the waiting room. Its value is
// the StreamSeq that the intent had there.
const HeaderWaited = "Order-Waited"

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
	// LookupUntil makes this intent one that only asks the API whether it has the order, until
	// then (R3). It is never posted. Zero means that it is an order to send.
	LookupUntil time.Time
	// Lane is the lane of the waiting room in which the intent waits for its turn.
	// An intent without a lane and without a time goes straight to the queue.
	Lane string
	// Traceparent is the W3C trace context of the producer.
	Traceparent string
}

// Waits reports whether the intent goes to the waiting room.
func (in Intent) Waits() bool { return in.Lane != "" || !in.NotBefore.IsZero() }

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

// waitedAt returns the sequence that an intent had in the waiting room; zero = it never
// waited.
func waitedAt(m *Message) (at StreamSeq) {
	_ = at.UnmarshalText([]byte(m.Header.Get(HeaderWaited))) // a producer may have written anything
	return at
}

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
	if text := h.Get(HeaderLookupUntil); text != "" {
		if d.Intent.LookupUntil, err = time.Parse(time.RFC3339, text); err != nil {
			return &envelopeError{"bad_lookup_until", fmt.Sprintf("header %s: %q is not an RFC 3339 time such as 2026-01-31T18:00:00Z", HeaderLookupUntil, text)}
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

// TokenOf returns the token that records and letters about a name are filed
// under. The name is an order_no. If no such order is known, it may also be
// what a listing shows for a message whose subject belongs to no order_no: the
// end of that subject, or the token that its letter is filed under.
func (lg *Ledger) TokenOf(ctx context.Context, name string) (string, error) {
	token, odd := FileToken(order.Token(name)), FileToken(name)
	if token == odd {
		return token, nil
	}
	known, err := lg.hasRecord(ctx, token)
	if err != nil || known {
		return token, err
	}
	known, err = lg.hasRecord(ctx, odd)
	if err != nil || !known {
		return token, err
	}
	return odd, nil
}

// hasRecord reports whether a record is filed under this token, readable or
// not.
func (lg *Ledger) hasRecord(ctx context.Context, token string) (bool, error) {
	entry, err := lg.store.Record(ctx, token)
	if errors.Is(err, ErrUnreadable) {
		return true, nil
	}
	return entry.Record != nil, err
}

// Name returns the name by which commands find the letter.
func (l *Letter) Name() string {
	if l.FiledUnder == "" || l.FiledUnder == FileToken(order.Token(l.OrderNo)) || l.FiledUnder == FileToken(l.OrderNo) {
		return l.OrderNo
	}
	return l.FiledUnder
}

// Token returns the token that the letter is filed under.
func (l *Letter) Token() string {
	if l.FiledUnder != "" {
		return l.FiledUnder
	}
	return FileToken(order.Token(l.OrderNo))
}

// NoImport is the token of intents that belong to no import.
const NoImport = "-"

// ImportToken returns the token under which the intents of an import wait.
func ImportToken(batch string) string {
	if batch == "" {
		return NoImport
	}
	return order.Token(batch)
}

// WaitingMinute returns the tokens of the minute of at.
func WaitingMinute(at time.Time) string { return at.UTC().Format("20060102.1504") }

// waitingSecond returns the tokens of the first full second from at on.
func waitingSecond(at time.Time) string {
	return at.Add(time.Second - 1).UTC().Truncate(time.Second).Format("20060102.1504.05")
}

// WaitingTime reads the time from the tokens of a subject in the waiting room, joined
// by dots. ok is false for a time that does not exist or is more than a year ahead.
func WaitingTime(tokens string, now time.Time) (at time.Time, ok bool) {
	at, err := time.Parse("20060102.1504.05", tokens)
	return at, err == nil && at.Sub(now) <= order.MaxWait
}

// SplitWaiting reads a subject of the waiting room, without its prefix: lane, token of
// the import, and the tokens of its time for WaitingTime; "" = it names none. The stream
// takes subjects of two tokens and of six.
func SplitWaiting(subject string) (lane, batch, second string) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 6 {
		return tokens[0], tokens[len(tokens)-1], ""
	}
	return tokens[4], tokens[5], strings.Join(tokens[1:4], ".")
}

// WaitingOrderNo returns the order number of a waiting message. The subject does
// not name it. A body that can never be sent goes to the workers all the same,
// who settle it as invalid: under its order_no if that can be read, otherwise
// under its sequence.
func WaitingOrderNo(m *Message) string {
	if parsed, err := order.Parse(m.Data); err == nil {
		return parsed.OrderNo()
	}
	var named struct {
		OrderNo string `json:"order_no"`
	}
	if json.Unmarshal(m.Data, &named) == nil && named.OrderNo != "" && len(named.OrderNo) <= order.MaxOrderNo {
		return named.OrderNo
	}
	return "waiting-" + strconv.FormatUint(m.Seq, 10)
}
