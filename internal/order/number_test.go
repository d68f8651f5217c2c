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

func TestAppendNumber(t *testing.T) {
	zeros := strings.Repeat("0", 400_000)
	for _, c := range []struct {
		name, raw, want string
		code            Code
	}{
		{"integer", "3600", "3600", ""},
		{"negative", "-12", "-12", ""},
		{"zero", "0", "0", ""},
		{"negative zero", "-0", "0", ""},
		{"zero with fraction", "-0.000", "0", ""},
		{"zero with a huge exponent", "0e999999999999999999999", "0", ""},
		{"trailing zero", "1.10", "1.1", ""},
		{"integral fraction", "100.00", "100", ""},
		{"15 digits", "123456789012345", "123456789012345", ""},
		{"16 digits", "1234567890123456", "1234567890123456", ""},
		{"money", "123456789012.34", "123456789012.34", ""},
		{"smallest without exponent", "0.000001", "0.000001", ""},
		{"largest with negative exponent", "0.0000001", "1e-7", ""},
		{"small with several digits", "0.00000123", "0.00000123", ""},
		{"exponent in", "3.6E+3", "3600", ""},
		{"largest without exponent", "1e20", "100000000000000000000", ""},
		{"smallest with exponent", "1e21", "1e+21", ""},
		{"2^53", "9007199254740992", "9007199254740992", ""},
		{"2^53+1", "9007199254740993", "", CodeNumberNotExact},
		{"2^53+1 negative", "-9007199254740993", "", CodeNumberNotExact},
		{"int64", "9223372036854775807", "", CodeNumberNotExact},
		{"18 digits", "0.123456789012345678", "", CodeNumberNotExact},
		{"largest", "1.7976931348623157e308", "1.7976931348623157e+308", ""},
		{"rounds to the largest", "1.7976931348623158e308", "", CodeNumberNotExact},
		{"infinite", "1e309", "", CodeNumberOutOfRange},
		{"negative infinite", "-1e309", "", CodeNumberOutOfRange},
		{"infinite by a huge exponent", "1e99999999999999999999", "", CodeNumberOutOfRange},
		{"smallest", "5e-324", "5e-324", ""},
		{"the smallest, spelled out", "4.9406564584124654e-324", "", CodeNumberNotExact},
		{"underflow", "1e-400", "", CodeNumberNotExact},
		{"underflow by a huge exponent", "1e-99999999999999999999", "", CodeNumberNotExact},
		// strconv.ParseFloat cuts exponents short, and would read these two wrongly.
		{"very many zeros in front", "0." + zeros + "1e400001", "1", ""},
		{"very many zeros behind", "25" + zeros + "e-400001", "2.5", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, code := appendNumber([]byte("x"), []byte(c.raw))
			require.Equal(t, c.code, code)
			require.Equal(t, "x"+c.want, string(got))
		})
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

// The shortcut for plain numbers must be what the long way would write.
func TestPlainNumbersNeedNoFormatting(t *testing.T) {
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.StringMatching(`-?(0|[1-9][0-9]{0,16})(\.0{0,7}[0-9]{1,12})?`).Draw(t, "raw")
		if !isPlainNumber([]byte(raw)) {
			return
		}
		seen++
		float, err := strconv.ParseFloat(raw, 64)
		require.NoError(t, err)
		want := strconv.FormatFloat(float, 'f', -1, 64) // what ECMAScript writes from 1e-6 to 1e21
		require.Equal(t, want, raw)
		require.True(t, float == 0 && raw == "0" || math.Abs(float) >= 1e-6)
	})
	require.Positive(t, seen)
}
