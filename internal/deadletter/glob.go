package deadletter

import "unicode/utf8"

// glob is a pattern for a whole text: characters, globOne and globAny.
type glob []rune

const (
	globOne rune = -1 - iota // one character
	globAny                  // any text
)

// newGlob reads a pattern: the star is globAny, the question mark globOne. A backslash makes
// the next character literal.
func newGlob(text string) glob {
	g := make(glob, 0, len(text))
	escaped := false
	for _, r := range text {
		switch {
		case !escaped && r == '\\':
			escaped = true
			continue
		case !escaped && r == '*':
			r = globAny
		case !escaped && r == '?':
			r = globOne
		}
		escaped = false
		g = append(g, r)
	}
	return g
}

// Pattern returns what reports whether a whole text matches a pattern. The star stands for
// any text, the question mark for one character; a backslash makes the next one literal.
func Pattern(text string) func(string) bool {
	return newGlob(text).matches
}

// literal returns the text that a pattern matches, if it matches no other.
func (g glob) literal() (text string, one bool) {
	for _, r := range g {
		if r < 0 {
			return "", false
		}
	}
	return string(g), true
}

// matches goes back to the last globAny only: what came before it was found as early as it
// can be, which leaves the most room.
func (g glob) matches(text string) bool {
	at, next := 0, 0              // in text, and in g
	anyAt, anyNext := 0, len(g)+1 // where the last globAny ends in text, and what follows it in g
	for {
		if next < len(g) && g[next] == globAny {
			next++
			anyAt, anyNext = at, next
			continue
		}
		if at == len(text) {
			return next == len(g)
		}
		r, size := utf8.DecodeRuneInString(text[at:])
		if next < len(g) && (g[next] == globOne || g[next] == r) {
			at, next = at+size, next+1
			continue
		}
		if anyNext > len(g) {
			return false
		}
		_, size = utf8.DecodeRuneInString(text[anyAt:])
		anyAt += size
		at, next = anyAt, anyNext
	}
}
