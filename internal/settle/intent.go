package settle

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"
	"unicode/utf8"
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
