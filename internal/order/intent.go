package order

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"sync"
)

// The names of the fields that orderpost itself knows (contract section 2.3).
const (
	FieldOrderNo   = "order_no"
	FieldTimestamp = "timestamp"
	FieldTimeout   = "timeout"
)

// MaxTimestamp is the largest timestamp that can be signed, in milliseconds
// since the Unix epoch: 2^53-1, JavaScript's largest safe integer (rule 8).
const MaxTimestamp = 1<<53 - 1

// stampRoom is what stamping adds to a body at most, in bytes: the member's
// name, a comma, and 20 characters of an int64.
const stampRoom = len(`,"timestamp":`) + 20

// ValidTimestamp says whether ms may be signed: 0 < ms < 2^53.
func ValidTimestamp(ms int64) bool { return ms > 0 && ms <= MaxTimestamp }

// Order is a parsed intent in canonical form. It is immutable, safe for
// concurrent use, and meant to be kept for all attempts of the order: stamping
// it and building its string to sign only copy bytes.
type Order struct {
	// text is the canonical body without timestamp, then the string to sign up
	// to the timestamp's value, then the rest of the string to sign. One string
	// carries all of them, so that an order costs two allocations.
	text      string
	bodyEnd   int // text[:bodyEnd] is the body
	signSplit int // text[bodyEnd:signSplit] goes before the timestamp, text[signSplit:] behind it
	// stampAt is where the timestamp's member belongs in the body.
	stampAt                 int
	commaBefore, commaAfter bool
	orderNo                 string // a part of text
	timestamp               int64  // the parsed body's own; 0 for none

	hashOnce sync.Once
	hash     string
}

// OrderNo gives the order number; "" for an order from [Canonicalize] whose
// order_no is absent or not a string.
func (o *Order) OrderNo() string { return o.orderNo }

// Timestamp gives the timestamp in milliseconds that the parsed body carried at
// its top level, and whether it was one that can be signed (rule 8). Signing
// replaces it.
func (o *Order) Timestamp() (ms int64, ok bool) { return o.timestamp, o.timestamp != 0 }

// Canonical gives a copy of the canonical body (rules 5 to 7) without its
// top-level timestamp: what is published, stored and hashed.
func (o *Order) Canonical() []byte { return []byte(o.text[:o.bodyEnd]) }

// BodyHash gives the SHA-256 of the canonical body without timestamp, in
// lower-case hex: equal for two intents that ask for the same order.
func (o *Order) BodyHash() string {
	o.hashOnce.Do(func() {
		sum := sha256.Sum256([]byte(o.text[:o.bodyEnd]))
		o.hash = hex.EncodeToString(sum[:])
	})
	return o.hash
}

// AppendBody appends the canonical body with the given timestamp in
// milliseconds: in the place of the one that the parsed body had, else as the
// last field (signing rule 8, contract section 5.2 step 1). These are the bytes
// to send. The caller sees to it that [ValidTimestamp] holds.
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

// AppendStringToSign appends name=value pairs sorted by the UTF-16 code units
// of their names and joined by &, timestamp among them (signing rule 9,
// contract section 5.2 steps 2 and 3). The caller sees to it that
// [ValidTimestamp] holds.
func (o *Order) AppendStringToSign(dst []byte, timestampMS int64) []byte {
	dst = slices.Grow(dst, len(o.text)-o.bodyEnd+stampRoom)
	dst = append(dst, o.text[o.bodyEnd:o.signSplit]...)
	dst = strconv.AppendInt(dst, timestampMS, 10)
	return append(dst, o.text[o.signSplit:]...)
}
