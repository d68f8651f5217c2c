package lookup

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// width is the usual width of a terminal.
const width = 80

// Plain makes foreign text harmless for a terminal. Control characters and invalid
// UTF-8 become question marks, line ends become spaces.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r) && r != ' ':
			return '?'
		}
		return r
	}, s)
}

// Clip returns Plain text, shortened to n characters.
func Clip(s string, n int) string {
	s = Plain(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Lines returns Plain text, broken into lines of at most n characters, between words if
// possible.
func Lines(s string, n int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(Plain(s)) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > n {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		for line += word; utf8.RuneCountInString(line) > n; {
			runes := []rune(line)
			lines, line = append(lines, string(runes[:n])), string(runes[n:])
		}
	}
	return append(lines, line)
}

// Plural returns the form of a word for n things.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
