package sign

import "orderpost/internal/order"

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

// Comparison says whether a given signature is the right one.
type Comparison struct {
	Signature string `json:"signature"`
	Matches   bool   `json:"matches"`
}

// Explain signs a body (contract section 5.2) with the given timestamp in
// milliseconds and shows each step. It requires no field of the order.
//
// If given is not empty, Explain compares it with the signature. Explain returns an
// [*order.Error] for a refused body, [ErrNoSecret] or [ErrTimestamp].
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
		e.Given = &Comparison{Signature: given, Matches: given == signature}
	}
	return e, nil
}

// String returns a sentence for people, which says where to look if the signature is
// another one.
func (c *Comparison) String() string {
	if c.Matches {
		return "the given signature is right"
	}
	return "the given signature differs. Compare your string to sign with the one above, byte for byte: others sort names by bytes or below\n" +
		"the top level, leave out null, escape < > & in JSON text, or leave out the timestamp or sign another one. If the strings\n" +
		"are equal, the key differs: the secret's characters are the key, not decoded from hex and without a newline at the end.\n" +
		"The signature is sent in lower-case hex."
}
