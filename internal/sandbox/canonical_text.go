package sandbox

import (
	"bytes"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// plain marks the bytes of a JSON string that need neither unescaping nor a UTF-8
// check.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// str reads a string and appends its canonical form with quotes. escaped reports
// whether that form contains a backslash.
func (d *document) str() (escaped bool, err error) {
	d.pos++
	d.out = append(d.out, '"')
	for {
		from := d.pos
		for d.pos < len(d.src) && plain[d.src[d.pos]] {
			d.pos++
		}
		d.out = append(d.out, d.src[from:d.pos]...)
		if d.pos == len(d.src) {
			return escaped, d.fail("a string does not end")
		}
		switch c := d.src[d.pos]; {
		case c == '"':
			d.pos++
			d.out = append(d.out, '"')
			return escaped, nil
		case c == '\\':
			r, err := d.escape()
			if err != nil {
				return escaped, err
			}
			escaped = d.appendRune(r) || escaped
		case c < ' ':
			return escaped, d.fail("a control character in a string")
		default:
			r, size := utf8.DecodeRune(d.src[d.pos:])
			if r == utf8.RuneError && size == 1 {
				return escaped, d.fail("not UTF-8")
			}
			d.out = append(d.out, d.src[d.pos:d.pos+size]...)
			d.pos += size
		}
	}
}

// appendRune appends one character of a string as JSON.stringify does.
func (d *document) appendRune(r rune) (escaped bool) {
	const hex = "0123456789abcdef"
	if r == '"' || r == '\\' {
		d.out = append(d.out, '\\', byte(r))
		return true
	}
	if i := bytes.IndexByte([]byte("\b\t\n\f\r"), byte(r)); i >= 0 && r < ' ' {
		d.out = append(d.out, '\\', "btnfr"[i])
		return true
	}
	if r < ' ' {
		d.out = append(d.out, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		return true
	}
	d.out = utf8.AppendRune(d.out, r)
	return false
}

// escape reads one escape sequence, or a surrogate pair of two.
func (d *document) escape() (rune, error) {
	if d.pos+1 == len(d.src) {
		return 0, d.fail("a string does not end")
	}
	c := d.src[d.pos+1]
	if c != 'u' {
		i := bytes.IndexByte([]byte(`"\/bfnrt`), c)
		if i < 0 {
			return 0, d.fail("an unknown escape")
		}
		d.pos += 2
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	r, err := d.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if d.pos+1 < len(d.src) && d.src[d.pos] == '\\' && d.src[d.pos+1] == 'u' {
		low, err := d.hex4()
		if err != nil {
			return 0, err
		}
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			return pair, nil
		}
	}
	return 0, d.fail("an unpaired surrogate")
}

// hex4 reads \uXXXX.
func (d *document) hex4() (rune, error) {
	if d.pos+6 > len(d.src) {
		return 0, d.fail("a string does not end")
	}
	var r rune
	for _, c := range d.src[d.pos+2 : d.pos+6] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			r = r<<4 | rune(c-'A'+10)
		default:
			return 0, d.fail("an unknown escape")
		}
	}
	d.pos += 6
	return r, nil
}

// unescape returns the text of a canonical string. It handles only the escapes that
// appendRune writes.
func (d *document) unescape(canonical []byte) []byte {
	from := len(d.text)
	for i := 0; i < len(canonical); i++ {
		c := canonical[i]
		if c == '\\' {
			i++
			switch c = canonical[i]; c {
			case 'b':
				c = '\b'
			case 't':
				c = '\t'
			case 'n':
				c = '\n'
			case 'f':
				c = '\f'
			case 'r':
				c = '\r'
			case 'u':
				n, _ := strconv.ParseUint(string(canonical[i+3:i+5]), 16, 8)
				c, i = byte(n), i+4
			}
		}
		d.text = append(d.text, c)
	}
	return d.text[from:]
}

// number reads a number, rounds it to binary64 and appends it as ECMAScript's
// Number::toString does.
func (d *document) number() error {
	from := d.pos
	integer, err := d.scanNumber()
	if err != nil {
		return err
	}
	text := d.src[from:d.pos]
	// 15 digits are always exact. "-0" is the only short integer whose text changes.
	if integer && len(text) <= 15 && string(text) != "-0" {
		d.out = append(d.out, text...)
		return nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		d.pos = from
		return d.fail("a number out of range")
	}
	d.out = appendNumber(d.out, f)
	return nil
}

// scanNumber reads one number of the JSON grammar. integer reports whether it has
// neither fraction nor exponent.
func (d *document) scanNumber() (integer bool, err error) {
	if d.peek() == '-' {
		d.pos++
	}
	if d.peek() == '0' {
		d.pos++
	} else if !d.digits() {
		return false, d.fail("not a number")
	}
	integer = true
	if d.peek() == '.' {
		integer = false
		d.pos++
		if !d.digits() {
			return false, d.fail("not a number")
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		integer = false
		d.pos++
		if c := d.peek(); c == '+' || c == '-' {
			d.pos++
		}
		if !d.digits() {
			return false, d.fail("not a number")
		}
	}
	return integer, nil
}

func (d *document) digits() bool {
	from := d.pos
	for c := d.peek(); c >= '0' && c <= '9'; c = d.peek() {
		d.pos++
	}
	return d.pos > from
}

func appendNumber(out []byte, f float64) []byte {
	abs := math.Abs(f)
	if abs == 0 {
		return append(out, '0')
	}
	if abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(out, f, 'f', -1, 64)
	}
	out = strconv.AppendFloat(out, f, 'e', -1, 64)
	// Go pads the exponent to two digits, ECMAScript does not.
	if n := len(out); out[n-2] == '0' && (out[n-3] == '-' || out[n-3] == '+') {
		out[n-2] = out[n-1]
		out = out[:n-1]
	}
	return out
}

// compareUTF16 compares UTF-8 texts by their UTF-16 code units, as JavaScript does.
// The result differs from the comparison of bytes only between a character beyond
// U+FFFF (in UTF-16: D800 to DFFF) and one from U+E000 to U+FFFF.
func compareUTF16(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if x, y := a[i], b[i]; x != y {
			if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
				x, y = y, x
			}
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}
