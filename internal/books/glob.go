package books

import "unicode/utf8"

// glob is a pattern for a whole text. The star stands for any text, the question
// mark for one character.
type glob []rune

// What stands for itself is its rune.
const (
	globAny  rune = -1 // any text
	globOne  rune = -2 // one character
	globMark      = '\\'
)

// newGlob reads a pattern. A backslash makes the next character literal.
func newGlob(text string) glob {
	g := glob{} // the empty pattern matches only the empty text
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
		case r == globMark:
			escaped = true
			continue
		case r == '*':
			r = globAny
		case r == '?':
			r = globOne
		}
		g = append(g, r)
	}
	return g
}

// matches goes back only to the last star, so it takes no longer than the product of
// both lengths.
func (g glob) matches(text []byte) bool {
	at, star, from := 0, -1, 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		switch {
		case at < len(g) && (g[at] == r || g[at] == globOne):
			at, i = at+1, i+size
		case at < len(g) && g[at] == globAny:
			star, from, at = at, i, at+1
		case star >= 0:
			_, size = utf8.DecodeRune(text[from:])
			from += size
			at, i = star+1, from
		default:
			return false
		}
	}
	for at < len(g) && g[at] == globAny {
		at++
	}
	return at == len(g)
}
