package books

import (
	"bytes"
	"unicode/utf8"
)

// glob is a pattern for a whole text. The star stands for any text, the question
// mark for one character. The texts between its stars are its pieces.
type glob []globPiece

// globPiece is a text without stars.
type globPiece struct {
	text []byte // if it has no question marks
	// runes has a question mark as globOne; nil if there is none.
	runes []rune
}

const globOne rune = -1 // one character

// newGlob reads a pattern. A backslash makes the next character literal.
func newGlob(text string) glob {
	var g glob
	var runes []rune
	one, escaped := false, false
	end := func() {
		p := globPiece{text: []byte(string(runes))}
		if one {
			p = globPiece{runes: runes}
		}
		g, runes, one = append(g, p), nil, false
	}
	for _, r := range text {
		switch {
		case !escaped && r == '\\':
			escaped = true
			continue
		case !escaped && r == '*':
			end()
			continue
		case !escaped && r == '?':
			one, r = true, globOne
		}
		escaped = false
		runes = append(runes, r)
	}
	end()
	return g
}

// Pattern returns what reports whether a whole text matches a pattern. The star stands for
// any text, the question mark for one character; a backslash makes the next one literal.
func Pattern(text string) func(string) bool {
	g := newGlob(text)
	return func(text string) bool { return g.matches([]byte(text)) }
}

// literal returns the text that a pattern matches, if it matches no other.
func (g glob) literal() (text string, one bool) {
	if len(g) != 1 || g[0].runes != nil {
		return "", false
	}
	return string(g[0].text), true
}

// matches looks for the pieces one after the other. A piece that is found early
// leaves the most room for the next.
func (g glob) matches(text []byte) bool {
	n := len(g) - 1
	size, found := g[0].prefix(text)
	if !found || n == 0 {
		return found && size == len(text)
	}
	text = text[size:]
	for _, p := range g[1:n] {
		end := p.find(text)
		if end < 0 {
			return false
		}
		text = text[end:]
	}
	return g[n].suffix(text)
}

// prefix reports whether text begins with the piece, and how long that is.
func (p globPiece) prefix(text []byte) (size int, found bool) {
	if p.runes == nil {
		return len(p.text), bytes.HasPrefix(text, p.text)
	}
	for _, want := range p.runes {
		r, n := utf8.DecodeRune(text[size:])
		if n == 0 || want != globOne && want != r {
			return 0, false
		}
		size += n
	}
	return size, true
}

// find returns where the piece ends first in text; -1 if it is not there.
func (p globPiece) find(text []byte) (end int) {
	if p.runes == nil {
		if at := bytes.Index(text, p.text); at >= 0 {
			return at + len(p.text)
		}
		return -1
	}
	for at := 0; ; {
		if size, found := p.prefix(text[at:]); found {
			return at + size
		}
		_, n := utf8.DecodeRune(text[at:])
		if n == 0 {
			return -1
		}
		at += n
	}
}

// suffix reports whether text ends with the piece.
func (p globPiece) suffix(text []byte) bool {
	if p.runes == nil {
		return bytes.HasSuffix(text, p.text)
	}
	at := len(text)
	for range p.runes {
		_, n := utf8.DecodeLastRune(text[:at])
		if n == 0 {
			return false
		}
		at -= n
	}
	size, found := p.prefix(text[at:])
	return found && at+size == len(text)
}
