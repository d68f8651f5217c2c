package order

import (
	"slices"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestCompareUTF16(t *testing.T) {
	// Runes on both sides of every border that the comparison knows.
	border := rapid.SampledFrom([]rune{0, 'A', '_', 'a', 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x1F600, 0x10FFFF})
	text := rapid.StringOfN(border, 0, 4, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		want := slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		require.Equal(t, want, CompareUTF16(a, b), "%q %q", a, b)
	})
}
