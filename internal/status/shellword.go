package status

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ShellWord quotes a word for a shell. What it returns can be printed and copied: it has
// no character that a terminal or a page would hide or replace. Those are written by their
// bytes, in the form $'…' that bash, zsh and ksh read.
func ShellWord(s string) string {
	special := func(r rune) bool {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@", r)
		return !plain
	}
	switch {
	case s != "" && s[0] != '-' && strings.IndexFunc(s, special) < 0:
		return s
	case utf8.ValidString(s) && strings.IndexFunc(s, hides) < 0:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1, hides(r):
			for _, c := range []byte(s[:size]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		case r == '\'' || r == '\\':
			b.WriteString(`\` + string(r))
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String() + "'"
}

// hides reports whether a character is not seen as what it is where a command is copied.
func hides(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }
