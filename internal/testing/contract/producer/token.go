package producer

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Token encodes an order_no as one token of a NATS subject: every byte outside
// A-Z a-z 0-9 _ - becomes %XX, with upper-case digits. An order_no is a string
// of 1 to 255 bytes of UTF-8; no other has a subject.
func Token(orderNo string) (string, error) {
	if len(orderNo) < 1 || len(orderNo) > 255 || !utf8.ValidString(orderNo) {
		return "", errors.New("order_no is not a string of 1 to 255 bytes of UTF-8")
	}
	const digits = "0123456789ABCDEF"
	var token strings.Builder
	for _, c := range []byte(orderNo) {
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-':
			token.WriteByte(c)
		default:
			token.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return token.String(), nil
}
