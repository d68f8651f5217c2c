package sign

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"sync"

	"orderpost/internal/order"
)

// Errors of this package. Errors of [Signer.Verify] about the body itself are
// of type [*order.Error].
var (
	// ErrNoSecret: New was called with an empty secret (signing rule 10).
	ErrNoSecret = errors.New("the API secret is empty")
	// ErrTimestamp: the timestamp to sign is not in 0 < t < 2^53 (rule 8).
	ErrTimestamp = errors.New("timestamp is not a positive number of milliseconds below 2^53")
	// ErrUnstamped: the body to verify has no top-level timestamp that could
	// have been signed (contract section 5.2 step 1).
	ErrUnstamped = errors.New("the body has no valid timestamp")
	// ErrSignature: the signature is not the body's under this secret.
	ErrSignature = errors.New("the signature does not match the body")
)

// Signer signs orders with one API secret. It is safe for concurrent use.
//
// It does not keep the secret itself, and prints and marshals as a mask.
type Signer struct{ states *sync.Pool }

// state is one HMAC, keyed once, with the buffers of a signature.
type state struct {
	mac  hash.Hash
	text []byte
	sum  [sha256.Size]byte
	hex  [2 * sha256.Size]byte
}

// keepText bounds the buffer that a pooled state keeps, in bytes.
const keepText = 64 << 10

// New makes a signer whose key is the secret's bytes exactly as given: not
// decoded, not trimmed (signing rule 10). An empty secret gives [ErrNoSecret].
func New(secret string) (*Signer, error) {
	if secret == "" {
		return nil, ErrNoSecret
	}
	key := []byte(secret)
	return &Signer{states: &sync.Pool{New: func() any {
		return &state{mac: hmac.New(sha256.New, key)}
	}}}, nil
}

// Sign stamps the order (contract section 5.2): it appends the canonical body
// with this timestamp, in milliseconds, to dst, and returns it with the
// signature, 64 lower-case hex digits. Exactly these bytes must be sent, with
// the signature in X-Signature (rule 11). A timestamp outside 0 < t < 2^53
// gives [ErrTimestamp], and dst as it was.
func (s *Signer) Sign(dst []byte, o *order.Order, timestampMS int64) (body []byte, signature string, err error) {
	if !order.ValidTimestamp(timestampMS) {
		return dst, "", fmt.Errorf("%w: %d", ErrTimestamp, timestampMS)
	}
	st := s.states.Get().(*state)
	defer s.release(st)
	signature = string(st.sign(o, timestampMS))
	return o.AppendBody(dst, timestampMS), signature, nil
}

// Verify checks a received body against its signature, in constant time, as a
// server does: parse, build the string to sign with the body's own timestamp,
// compare. It returns an [*order.Error] for a body that breaks the signing
// rules, [ErrUnstamped] or [ErrSignature]. A signature in upper-case hex is not
// ours and does not match.
func (s *Signer) Verify(body []byte, signature string) error {
	o, err := order.Canonicalize(body)
	if err != nil {
		return err
	}
	timestampMS, ok := o.Timestamp()
	if !ok {
		return ErrUnstamped
	}
	st := s.states.Get().(*state)
	defer s.release(st)
	if !hmac.Equal(st.sign(o, timestampMS), []byte(signature)) {
		return ErrSignature
	}
	return nil
}

// sign gives the signature, valid until the state's next use.
func (st *state) sign(o *order.Order, timestampMS int64) []byte {
	st.text = o.AppendStringToSign(st.text[:0], timestampMS)
	st.mac.Reset()
	st.mac.Write(st.text)
	hex.Encode(st.hex[:], st.mac.Sum(st.sum[:0]))
	return st.hex[:]
}

func (s *Signer) release(st *state) {
	if cap(st.text) <= keepText {
		s.states.Put(st)
	}
}
