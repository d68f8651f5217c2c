package order

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// MaxToken is the longest subject token in bytes. A valid order_no encodes to at
// most 3 × [MaxOrderNo] bytes and always fits. A foreign one may not. Subject prefix
// and token together stay far below the limit of 4,050 bytes for a subject.
const MaxToken = 1000

// hashedPrefix begins the token of an order number that is too long to encode.
const hashedPrefix = "sha256-"

// Token encodes an order number as one token of a NATS subject. Every byte outside
// A-Z a-z 0-9 _ - becomes %XX with upper-case digits. If the result is longer than
// [MaxToken], the token is "sha256-" and the order number's SHA-256 in lower-case
// hex. The empty order number gives the empty token, which is invalid in a subject.
func Token(orderNo string) string {
	size := len(orderNo)
	for i := range len(orderNo) {
		if !isTokenByte(orderNo[i]) {
			size += len("%XX") - 1
		}
	}
	switch {
	case size > MaxToken:
		sum := sha256.Sum256([]byte(orderNo))
		return hashedPrefix + hex.EncodeToString(sum[:])
	case size == len(orderNo):
		return orderNo
	}
	const digits = "0123456789ABCDEF"
	token := make([]byte, 0, size)
	for i := range len(orderNo) {
		if c := orderNo[i]; isTokenByte(c) {
			token = append(token, c)
		} else {
			token = append(token, '%', digits[c>>4], digits[c&0xF])
		}
	}
	return string(token)
}

// OrderNoFromToken returns the order number that [Token] encoded. It returns an
// error for any token that Token would not have written, because a second spelling
// of one order number would be a second subject with a second record. A hashed token
// cannot be told from the order number "sha256-…", which is valid.
func OrderNoFromToken(token string) (string, error) {
	if token == "" {
		return "", fmt.Errorf("subject token is empty")
	}
	var orderNo strings.Builder
	for i := 0; i < len(token); i++ {
		c := token[i]
		switch {
		case isTokenByte(c):
			orderNo.WriteByte(c)
		case c == '%' && i+2 < len(token):
			plain, err := hex.DecodeString(token[i+1 : i+3])
			if err != nil {
				return "", fmt.Errorf("subject token %q: bad escape at byte %d", Clip(token, maxSeen), i)
			}
			orderNo.WriteByte(plain[0])
			i += 2
		default:
			return "", fmt.Errorf("subject token %q: byte %d must be escaped", Clip(token, maxSeen), i)
		}
	}
	if Token(orderNo.String()) != token {
		return "", fmt.Errorf("subject token %q is not the encoding of an order number", Clip(token, maxSeen))
	}
	return orderNo.String(), nil
}

func isTokenByte(c byte) bool {
	return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}
