package sign

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"orderpost/internal/order"
)

// Explanation shows each step of a signature. It never contains the secret.
type Explanation struct {
	// Canonical is the canonical body with timestamp: the bytes to send.
	Canonical string `json:"canonical"`
	// StringToSign is the input of the HMAC.
	StringToSign string `json:"string_to_sign"`
	// Signature is 64 lower-case hex digits.
	Signature string `json:"signature"`
	// Warnings lists what others might sign differently. It is never nil.
	Warnings []order.Warning `json:"warnings"`
	// Given is the comparison with a given signature, or nil if none was given.
	Given *Comparison `json:"given,omitempty"`
}

// Comparison says whether a given signature differs, and why.
type Comparison struct {
	Signature string `json:"signature"`
	Matches   bool   `json:"matches"`
	// Reasons lists the mistakes that together produce the given signature. It is
	// empty if the signature matches or if no known mistakes produce it.
	Reasons []Reason `json:"reasons"`
}

// Explain signs a body (contract section 5.2) with the given timestamp in
// milliseconds and shows each step. It requires no field of the order.
//
// If given is not empty, Explain compares it with the signature. If they differ, it
// searches for the combination of known mistakes that produces given. Explain
// returns an [*order.Error] for a refused body, [ErrNoSecret] or [ErrTimestamp].
func Explain(body []byte, secret string, timestampMS int64, given string) (Explanation, error) {
	signer, err := New(secret)
	if err != nil {
		return Explanation{}, err
	}
	o, err := order.Canonicalize(body)
	if err != nil {
		return Explanation{}, err
	}
	sent, signature, err := signer.Sign(nil, o, timestampMS)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{
		Canonical:    string(sent),
		StringToSign: string(o.AppendStringToSign(nil, timestampMS)),
		Signature:    signature,
		Warnings:     append([]order.Warning{}, o.Warnings()...),
	}
	if given != "" {
		e.Given = compare(o, secret, timestampMS, given, signature)
	}
	return e, nil
}

func compare(o *order.Order, secret string, timestampMS int64, given, signature string) *Comparison {
	c := &Comparison{Signature: given, Matches: given == signature, Reasons: []Reason{}}
	if c.Matches {
		return c
	}
	sum, err := hex.DecodeString(given)
	if err != nil || len(sum) != sha256.Size {
		return c
	}
	var codes []ReasonCode
	if given != strings.ToLower(given) {
		codes = append(codes, ReasonUpperCase)
	}
	more, found := search(o, secret, timestampMS, sum)
	if !found {
		return c
	}
	for _, code := range append(codes, more.codes()...) {
		c.Reasons = append(c.Reasons, Reason{Code: code, Message: reasonMessages[code]})
	}
	return c
}

// String returns one sentence for people.
func (c *Comparison) String() string {
	switch {
	case c.Matches:
		return "the given signature is right"
	case len(c.Reasons) == 0:
		return "the given signature differs, and no known mistake gives it: compare the secret, the body and the string to sign"
	}
	messages := make([]string, len(c.Reasons))
	for i, reason := range c.Reasons {
		messages[i] = reason.Message
	}
	return "the given signature differs: " + strings.Join(messages, "; and ")
}
