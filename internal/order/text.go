package order

import "unicode/utf8"

// Truncate shortens a text to at most n bytes, and never within a character.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
