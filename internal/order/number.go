package order

import (
	"bytes"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// exactDigits is the number of significant decimal digits that survive a round trip
// through binary64 (DBL_DIG).
const exactDigits = 15

// appendNumber appends raw, a valid JSON number, as JavaScript's JSON.parse and
// Number::toString would rewrite it (docs/signing.md). If the result would be
// infinite or another decimal value, it returns CodeNumberOutOfRange or
// CodeNumberNotExact and leaves dst unchanged.
func appendNumber(dst, raw []byte) ([]byte, Code) {
	if isPlainNumber(raw) {
		return append(dst, raw...), ""
	}
	var scratch [64]byte
	read := decimalOf(scratch[:0], raw)
	if len(read.digits) == 0 {
		return append(dst, '0'), "" // -0 too: JSON.stringify(-0) is 0
	}
	value := read.float()
	if math.IsInf(value, 0) {
		return dst, CodeNumberOutOfRange
	}
	start := len(dst)
	dst = jsontext.AppendFloat(dst, value, 64)
	var again [32]byte
	if !read.equal(decimalOf(again[:0], dst[start:])) {
		return dst[:start], CodeNumberNotExact
	}
	return dst, ""
}

// isPlainNumber reports whether ECMAScript certainly writes the number as raw: no
// exponent, no superfluous zero, at most 15 significant digits, and not below 1e-6,
// from where on it uses an exponent. false means that appendNumber must look closer.
func isPlainNumber(raw []byte) bool {
	digits := bytes.TrimPrefix(raw, []byte{'-'})
	whole, fraction, hasPoint := bytes.Cut(digits, []byte{'.'})
	if len(digits) > exactDigits+1 || bytes.ContainsAny(fraction, "eE") || bytes.ContainsAny(whole, "eE") {
		return false
	}
	if !hasPoint {
		return len(whole) <= exactDigits && (whole[0] != '0' || len(raw) == 1)
	}
	if fraction[len(fraction)-1] == '0' {
		return false
	}
	return whole[0] != '0' || !bytes.HasPrefix(fraction, []byte("000000"))
}

// decimal is the exact value ±0.digits × 10^exp. digits has no leading or trailing
// zeros. It is empty for zero.
type decimal struct {
	negative bool
	digits   []byte
	exp      int
}

// decimalOf parses a valid JSON number. It stores the digits in scratch.
func decimalOf(scratch, raw []byte) decimal {
	var d decimal
	raw, d.negative = bytes.CutPrefix(raw, []byte{'-'})
	mantissa := raw
	if at := bytes.IndexAny(raw, "eE"); at >= 0 {
		mantissa, d.exp = raw[:at], exponentOf(raw[at+1:])
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte{'.'})
	digits := append(append(scratch, whole...), fraction...)
	d.exp += len(whole)
	d.digits = bytes.TrimLeft(digits, "0")
	d.exp -= len(digits) - len(d.digits)
	d.digits = bytes.TrimRight(d.digits, "0")
	return d
}

// exponentOf parses the exponent after the e. It saturates at a billion, because an
// int must not overflow. A body has at most a mebibyte of digits, so no mantissa
// brings such a value back into range.
func exponentOf(text []byte) int {
	text, negative := bytes.CutPrefix(text, []byte{'-'})
	n := 0
	for _, c := range bytes.TrimPrefix(text, []byte{'+'}) {
		if n < 1e9 {
			n = n*10 + int(c-'0')
		}
	}
	if negative {
		return -n
	}
	return n
}

// float returns the nearest binary64 value, which may be zero or infinite. It gives
// strconv the normalised digits, because strconv truncates the exponent of a number
// with very many zeros.
func (d decimal) float() float64 {
	text := make([]byte, 0, 64)
	if d.negative {
		text = append(text, '-')
	}
	text = append(append(append(text, "0."...), d.digits...), 'e')
	text = strconv.AppendInt(text, int64(min(max(d.exp, -9999), 9999)), 10)
	value, _ := strconv.ParseFloat(string(text), 64) // the only possible error is ErrRange, which comes with ±Inf
	return value
}

func (d decimal) equal(other decimal) bool {
	if len(d.digits) == 0 || len(other.digits) == 0 {
		return len(d.digits) == len(other.digits)
	}
	return d.negative == other.negative && d.exp == other.exp && bytes.Equal(d.digits, other.digits)
}
