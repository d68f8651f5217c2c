package order

import (
	"slices"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestIndexOfName(t *testing.T) {
	for name, want := range map[string]int64{
		"0": 0, "7": 7, "10": 10, "4294967294": 4294967294,
		"4294967295": notIndex, "4294967296": notIndex, "9999999999": notIndex, "12345678901": notIndex,
		"": notIndex, "00": notIndex, "01": notIndex, "-1": notIndex, "+1": notIndex,
		"1.0": notIndex, "1e3": notIndex, " 1": notIndex, "١": notIndex, "a": notIndex,
	} {
		require.Equal(t, want, indexOfName([]byte(name)), "%q", name)
	}
}

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

func TestIsSnakeCase(t *testing.T) {
	for _, name := range []string{"a", "order_no", "line2", "a_"} {
		require.True(t, isSnakeCase(name), "%q", name)
	}
	for _, name := range []string{"", "A", "orderNo", "order-no", "_a", "2a", "é", "a b"} {
		require.False(t, isSnakeCase(name), "%q", name)
	}
}
