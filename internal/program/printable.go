package program

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable keeps text from outside, such as a file's name or header, from
// steering the terminal that shows it: control characters and those that
// reorder or hide text are written as JSON would escape them. Line ends and
// tabs stay.
func Printable(s string) string {
	if strings.IndexFunc(s, steers) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\r' && strings.HasPrefix(s[i+1:], "\n"), !steers(r):
			b.WriteString(s[i : i+size])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

// steers: the character does something to the text around it.
func steers(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

// ForTerminal makes what is written to a terminal [Printable]. Anything else
// than a terminal gets every byte as it is.
func ForTerminal(w io.Writer) io.Writer {
	if !IsTerminal(w) {
		return w
	}
	return &printer{w: w}
}

// printer writes text as Printable. A character that was cut waits for its
// rest.
type printer struct {
	w    io.Writer
	rest []byte
}

// Write implements io.Writer.
func (p *printer) Write(text []byte) (int, error) {
	all := append(p.rest, text...)
	whole := len(all)
	for cut := 1; cut < utf8.UTFMax && cut <= len(all); cut++ {
		if at := len(all) - cut; utf8.RuneStart(all[at]) && !utf8.FullRune(all[at:]) {
			whole = at
		}
	}
	if whole == len(all) && whole > 0 && all[whole-1] == '\r' {
		whole--
	}
	_, err := io.WriteString(p.w, Printable(string(all[:whole])))
	p.rest = append([]byte(nil), all[whole:]...)
	return len(text), err
}
