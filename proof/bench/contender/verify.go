package contender

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"sync"
)

// verifier checks signatures by code of its own: it knows no more JSON than
// the bench's orders need (compact, no escapes in names or texts), and refuses
// what it does not know.
type verifier struct {
	mac   hash.Hash
	pairs []pair
	text  []byte
	sum   [sha256.Size]byte
	hex   [2 * sha256.Size]byte
}

type pair struct{ name, value []byte }

func newVerifier() *verifier { return &verifier{mac: hmac.New(sha256.New, []byte(APISecret))} }

var verifiers = sync.Pool{New: func() any { return newVerifier() }}

// verify says whether the signature is the body's.
func verify(body, signature []byte) bool {
	v := verifiers.Get().(*verifier)
	defer verifiers.Put(v)
	return v.split(body) && hmac.Equal(v.sign(), signature)
}

// sign gives the signature of the pairs in hexadecimal digits, valid until the
// next call.
func (v *verifier) sign() []byte {
	slices.SortFunc(v.pairs, func(a, b pair) int { return bytes.Compare(a.name, b.name) })
	v.text = v.text[:0]
	for i, p := range v.pairs {
		if i > 0 {
			v.text = append(v.text, '&')
		}
		v.text = append(append(append(v.text, p.name...), '='), p.value...)
	}
	v.mac.Reset()
	v.mac.Write(v.text)
	hex.Encode(v.hex[:], v.mac.Sum(v.sum[:0]))
	return v.hex[:]
}

// split finds the top-level pairs of a compact JSON object.
func (v *verifier) split(body []byte) bool {
	v.pairs = v.pairs[:0]
	if len(body) < 2 || body[0] != '{' || bytes.IndexByte(body, '\\') >= 0 {
		return false
	}
	for rest := body[1:]; ; {
		name, after, ok := quoted(rest)
		if !ok || len(after) == 0 || after[0] != ':' {
			return false
		}
		value, after, ok := valueOf(after[1:])
		if !ok || len(after) == 0 {
			return false
		}
		v.pairs = append(v.pairs, pair{name, value})
		switch after[0] {
		case ',':
			rest = after[1:]
		case '}':
			return len(after) == 1
		default:
			return false
		}
	}
}

func quoted(b []byte) (text, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	end := bytes.IndexByte(b[1:], '"')
	if end < 0 {
		return nil, nil, false
	}
	return b[1 : 1+end], b[2+end:], true
}

// valueOf gives a value as it is signed: a text without its quotes.
func valueOf(b []byte) (value, rest []byte, ok bool) {
	if len(b) > 0 && b[0] == '"' {
		return quoted(b)
	}
	depth, inText := 0, false
	for i, c := range b {
		switch {
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 0:
			depth--
		case depth == 0 && (c == ',' || c == '}'):
			return b[:i], b[i:], i > 0
		}
	}
	return nil, nil, false
}
