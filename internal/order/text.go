package order

import (
	"cmp"
	"strings"
	"unicode/utf8"
)

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

// maxIndexName is the largest array index of ECMAScript, 2^32-2. Larger integers
// are ordinary names.
const maxIndexName = 1<<32 - 2

// notIndex stands for a name that is not an array index. It sorts after all
// indexes.
const notIndex = int64(maxIndexName) + 1

// indexOfName returns the array index that a name spells in canonical form (0, or
// no leading zero). It returns notIndex for any other name. JavaScript objects
// enumerate array indexes first, in ascending order (docs/signing.md).
func indexOfName(name []byte) int64 {
	if len(name) == 0 || len(name) > len("4294967294") || (name[0] == '0' && len(name) > 1) {
		return notIndex
	}
	n := int64(0)
	for _, c := range name {
		if c < '0' || c > '9' {
			return notIndex
		}
		n = n*10 + int64(c-'0')
	}
	return min(n, notIndex)
}

// CompareUTF16 compares two valid UTF-8 texts by their UTF-16 code units, as
// JavaScript's sort does (docs/signing.md). It returns -1, 0 or 1.
//
// UTF-8 bytes sort by code point. UTF-16 sorts alike, except for characters beyond
// U+FFFF: they begin with a surrogate (D800 to DFFF) and therefore precede U+E000
// to U+FFFF. In UTF-8 the former have lead bytes from F0 on, the latter EE or EF.
// The first byte that differs is a lead byte in both texts or in neither.
func CompareUTF16[T ~string | ~[]byte](a, b T) int {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		switch {
		case x == y:
			continue
		case x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0):
			return cmp.Compare(y, x)
		default:
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

// isSnakeCase reports whether a name is lower snake case. Every reading of
// "alphabetical order" sorts such names alike.
func isSnakeCase(name string) bool {
	if name == "" || name[0] < 'a' || name[0] > 'z' {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
