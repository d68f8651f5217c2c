package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable escapes the characters of foreign text, such as a file name, that could
// control the terminal: control characters, and those that reorder or hide text. It
// uses JSON's escapes. Line ends and tabs stay.
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

// steers reports whether the character affects the terminal or the text around it.
func steers(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}

// ForTerminal returns a writer that makes text [Printable] if w is a terminal.
// Otherwise it returns w.
func ForTerminal(w io.Writer) io.Writer {
	if !IsTerminal(w) {
		return w
	}
	return &printer{w: w}
}

// printer writes text as Printable. It keeps an incomplete character until the rest
// is written.
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

// Sentence makes a sentence of a text that begins in lower case, as errors do.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + strings.TrimSuffix(text[1:], ".") + "."
}
