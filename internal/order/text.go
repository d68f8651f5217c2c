package order

import "unicode/utf8"

// Truncate returns the longest prefix of s that has at most n bytes and does not
// split a UTF-8 sequence.
func Truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Clip is [Truncate], followed by "…" if it shortened s. Errors and warnings quote
// values with it: a body may hold a name or a number of a mebibyte.
func Clip(s string, n int) string {
	if short := Truncate(s, n); short != s {
		return short + "…"
	}
	return s
}
