package sandbox

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"net/http"
	"strconv"
	"time"
)

// call holds the buffers of one verification.
type call struct {
	raw    []byte // the body as received
	doc    document
	mac    [sha256.Size]byte
	sent   [sha256.Size]byte
	digest hash.Hash
}

func newCall() call { return call{digest: sha256.New()} }

// authenticate returns the key pair of a request. A GET needs no signature.
func (s *Server) authenticate(h http.Header) (*pair, *refusal) {
	key := header(h, "X-Api-Key")
	if key == "" {
		return nil, &refusal{answer: AnswerNoKey}
	}
	p := s.keys.find(key)
	if p == nil {
		return nil, &refusal{answer: AnswerUnknownKey}
	}
	p.requests.Add(1)
	return p, nil
}

// verify checks the body that c.doc has read: its signature, the age of its timestamp,
// and that the signature was not used before.
func (s *Server) verify(c *call, p *pair, signature string, now time.Time, window time.Duration) *refusal {
	timestamp, bad := signedTimestamp(&c.doc)
	if bad != nil {
		return bad
	}
	if signature == "" {
		return &refusal{answer: AnswerNoSignature}
	}
	mac := p.sign(c.mac[:0], c.doc.stringToSign())
	if !matches(c.sent[:], signature, mac) {
		return &refusal{answer: AnswerBadSignature}
	}
	if age := now.Sub(timestamp); age > window || age < -window {
		return &refusal{answer: AnswerExpired, detail: "it is " + age.String() + " old"}
	}
	if s.replays.seen(mac, timestamp, now, window) {
		return &refusal{answer: AnswerReplayed}
	}
	return nil
}

// signedTimestamp returns the body's timestamp.
func signedTimestamp(d *document) (time.Time, *refusal) {
	text := d.field("timestamp")
	if text == nil {
		return time.Time{}, &refusal{answer: AnswerIncomplete, field: "timestamp", detail: "timestamp is missing"}
	}
	ms, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || ms <= 0 || ms >= 1<<53 {
		return time.Time{}, &refusal{answer: AnswerIncomplete, field: "timestamp",
			detail: "timestamp is not an integer of milliseconds"}
	}
	return time.UnixMilli(ms), nil
}

// matches compares in constant time and ignores case, because the contract does not
// specify the case of the hexadecimal digits.
func matches(room []byte, signature string, mac []byte) bool {
	if len(signature) != 2*len(mac) {
		return false
	}
	n, err := hex.Decode(room, []byte(signature))
	return err == nil && hmac.Equal(room[:n], mac)
}

// orderNo checks the required fields and returns the body's order_no.
func orderNo(d *document) ([]byte, *refusal) {
	quoted := d.field("order_no")
	if len(quoted) < 3 || quoted[0] != '"' {
		return nil, &refusal{answer: AnswerIncomplete, field: "order_no", detail: "order_no must be a string that is not empty"}
	}
	timeout, err := strconv.ParseInt(string(d.field("timeout")), 10, 64)
	if err != nil || timeout < 0 {
		return nil, &refusal{answer: AnswerIncomplete, field: "timeout", detail: "timeout must be an integer, 0 or more"}
	}
	text := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(text, '\\') >= 0 {
		text = d.unescape(text)
	}
	return text, nil
}

// bodyHash returns the hash of the canonical body without timestamp. Two attempts for
// the same order have equal hashes.
func (c *call) bodyHash() (h Hash) {
	before, after := c.doc.without("timestamp")
	c.digest.Reset()
	c.digest.Write(before)
	c.digest.Write(after)
	c.digest.Sum(h[:0])
	return h
}
