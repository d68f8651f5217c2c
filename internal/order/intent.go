package order

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"sync"
)

// The fields that orderpost knows (contract section 2.3).
const (
	FieldOrderNo   = "order_no"
	FieldTimestamp = "timestamp"
	FieldTimeout   = "timeout"
)

// MaxTimestamp is the largest valid timestamp in milliseconds since the Unix epoch:
// 2^53-1, JavaScript's largest safe integer (rule 8).
const MaxTimestamp = 1<<53 - 1

// stampRoom is the most bytes that a timestamp adds to a body: the member's name,
// a comma and the 20 characters of an int64.
const stampRoom = len(`,"timestamp":`) + 20

// ValidTimestamp reports whether ms can be signed: 0 < ms < 2^53.
func ValidTimestamp(ms int64) bool { return ms > 0 && ms <= MaxTimestamp }

// Order is a parsed intent in canonical form. It is immutable and safe for
// concurrent use. Keep it for all attempts of the order: adding a timestamp and
// building the string to sign only copy bytes.
type Order struct {
	// text holds the canonical body without timestamp, then the string to sign up
	// to the timestamp's value, then the rest of the string to sign. A single
	// string saves allocations.
	text      string
	bodyEnd   int // text[:bodyEnd] is the body
	signSplit int // text[bodyEnd:signSplit] precedes the timestamp, text[signSplit:] follows it
	// stampAt is the offset of the timestamp's member in the body.
	stampAt                 int
	commaBefore, commaAfter bool
	orderNo                 string // part of text
	timestamp               int64  // of the parsed body; 0 = none

	hashOnce sync.Once
	hash     string
}

// OrderNo returns the order number. It is empty for an order from [Canonicalize]
// whose order_no is absent or not a string.
func (o *Order) OrderNo() string { return o.orderNo }

// Timestamp returns the top-level timestamp of the parsed body in milliseconds. ok
// is false if the body had none that can be signed (rule 8). Signing replaces it.
func (o *Order) Timestamp() (ms int64, ok bool) { return o.timestamp, o.timestamp != 0 }

// Canonical returns a copy of the canonical body (rules 5 to 7) without its
// top-level timestamp. This form is published, stored and hashed.
func (o *Order) Canonical() []byte { return []byte(o.text[:o.bodyEnd]) }

// Text is Canonical without a copy.
func (o *Order) Text() string { return o.text[:o.bodyEnd] }

// BodyHash returns the SHA-256 of the canonical body without timestamp, in
// lower-case hex. Two intents for the same order have equal hashes.
func (o *Order) BodyHash() string {
	o.hashOnce.Do(func() {
		sum := sha256.Sum256([]byte(o.text[:o.bodyEnd]))
		o.hash = hex.EncodeToString(sum[:])
	})
	return o.hash
}

// AppendBody appends the bytes to send: the canonical body with the given
// timestamp in milliseconds. The timestamp takes the position of the parsed body's
// own, or the last position (signing rule 8, contract section 5.2 step 1). The
// caller must ensure [ValidTimestamp].
func (o *Order) AppendBody(dst []byte, timestampMS int64) []byte {
	dst = slices.Grow(dst, o.bodyEnd+stampRoom)
	dst = append(dst, o.text[:o.stampAt]...)
	if o.commaBefore {
		dst = append(dst, ',')
	}
	dst = append(dst, `"timestamp":`...)
	dst = strconv.AppendInt(dst, timestampMS, 10)
	if o.commaAfter {
		dst = append(dst, ',')
	}
	return append(dst, o.text[o.stampAt:o.bodyEnd]...)
}

// AppendStringToSign appends the string to sign: name=value pairs, the timestamp
// included, joined by & and sorted by the UTF-16 code units of their names (signing
// rule 9, contract section 5.2 steps 2 and 3). The caller must ensure
// [ValidTimestamp].
func (o *Order) AppendStringToSign(dst []byte, timestampMS int64) []byte {
	dst = slices.Grow(dst, len(o.text)-o.bodyEnd+stampRoom)
	dst = append(dst, o.text[o.bodyEnd:o.signSplit]...)
	dst = strconv.AppendInt(dst, timestampMS, 10)
	return append(dst, o.text[o.signSplit:]...)
}
