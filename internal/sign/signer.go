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

// The errors of this package. [Signer.Verify] also returns an [*order.Error] for a
// bad body.
var (
	// ErrNoSecret: New was called with an empty secret (docs/signing.md).
	ErrNoSecret = errors.New("the API secret is empty")
	// ErrTimestamp: the timestamp to sign is not in 0 < t < 2^53 (rule 8).
	ErrTimestamp = errors.New("timestamp is not a positive number of milliseconds below 2^53")
	// ErrUnstamped: the body to verify has no valid top-level timestamp (contract
	// section 5.2 step 1).
	ErrUnstamped = errors.New("the body has no valid timestamp")
	// ErrSignature: the signature does not match the body under this secret.
	ErrSignature = errors.New("the signature does not match the body")
)

// Signer signs orders with one API secret. It is safe for concurrent use. It prints
// and marshals as a constant without the secret.
type Signer struct{ states *sync.Pool }

// state is a keyed HMAC with the buffers for one signature.
type state struct {
	mac  hash.Hash
	text []byte
	sum  [sha256.Size]byte
	hex  [2 * sha256.Size]byte
}

// keepText is the largest buffer of a pooled state, in bytes.
const keepText = 64 << 10

// New returns a signer with the secret's bytes as its key, neither decoded nor
// trimmed (docs/signing.md). It returns [ErrNoSecret] for an empty secret.
func New(secret string) (*Signer, error) {
	if secret == "" {
		return nil, ErrNoSecret
	}
	key := []byte(secret)
	return &Signer{states: &sync.Pool{New: func() any {
		return &state{mac: hmac.New(sha256.New, key)}
	}}}, nil
}

// Sign appends the canonical body with the timestamp, in milliseconds, to dst
// (contract section 5.2). It returns the extended slice and the signature, 64
// lower-case hex digits. The client must send exactly these bytes and put the
// signature into X-Signature (rule 11). For a timestamp outside 0 < t < 2^53, Sign
// returns dst unchanged and [ErrTimestamp].
func (s *Signer) Sign(dst []byte, o *order.Order, timestampMS int64) (body []byte, signature string, err error) {
	if !order.ValidTimestamp(timestampMS) {
		return dst, "", fmt.Errorf("%w: %d", ErrTimestamp, timestampMS)
	}
	st := s.states.Get().(*state)
	defer s.release(st)
	signature = string(st.sign(o, timestampMS))
	return o.AppendBody(dst, timestampMS), signature, nil
}

// Verify checks the signature of a received body as a server does: it parses the
// body, builds the string to sign with the body's own timestamp, and compares in
// constant time. It returns an [*order.Error] for a body that breaks the signing
// rules, [ErrUnstamped] or [ErrSignature]. Upper-case hex does not match.
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

// sign returns the signature. The slice is valid until the next use of the state.
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
