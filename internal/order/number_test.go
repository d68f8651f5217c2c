package order

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// strconv.ParseFloat cuts exponents short, and would read these two wrongly.
func TestNumbersOfVeryManyZeros(t *testing.T) {
	zeros := strings.Repeat("0", 400_000)
	for raw, want := range map[string]string{"0." + zeros + "1e400001": "1", "25" + zeros + "e-400001": "2.5"} {
		got, code := appendNumber(nil, []byte(raw))
		require.Empty(t, code)
		require.Equal(t, want, string(got))
	}
}

// numberText draws numbers in all spellings that JSON has, most of them near a
// border: of digits, of exponents, of what is written with an exponent.
func numberText(t *rapid.T) string {
	digits := rapid.StringMatching(`(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?`).Draw(t, "digits")
	sign := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign")
	exponent := ""
	if rapid.Bool().Draw(t, "has exponent") {
		exponent = "e" + strconv.Itoa(rapid.IntRange(-340, 320).Draw(t, "exponent"))
	}
	return sign + digits + exponent
}

// An accepted number must be the same decimal value, by exact arithmetic, and
// read by JavaScript (binary64) as what was sent. A refused one must not be.
func TestNumbersKeepTheirValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := numberText(t)
		exact, ok := new(big.Rat).SetString(raw)
		require.True(t, ok)
		got, code := appendNumber(nil, []byte(raw))
		float, _ := strconv.ParseFloat(raw, 64)
		switch code {
		case "":
			written, ok := new(big.Rat).SetString(string(got))
			require.True(t, ok)
			require.Zero(t, exact.Cmp(written), "%s became %s", raw, got)
			again, err := strconv.ParseFloat(string(got), 64)
			require.NoError(t, err)
			require.True(t, again == float, "%s became %s", raw, got)
		case CodeNumberOutOfRange:
			require.True(t, math.IsInf(float, 0), raw)
		case CodeNumberNotExact:
			require.False(t, math.IsInf(float, 0), raw)
			shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(float, 'e', -1, 64))
			require.NotZero(t, exact.Cmp(shortest), raw)
		}
	})
}
