package duration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBounds(t *testing.T) {
	for text, want := range map[string]string{
		"0": "", "30s": "", "876000h": "", "1ns": "",
		"876000h1ns":    "876000h0m0.000000001s is too long; give at most 876000h (100 years)",
		"2562047h":      "2562047h0m0s is too long; give at most 876000h (100 years)",
		"2562048h":      `"2562048h" is not a duration such as 500ms, 30s or 2h, at most 876000h (100 years)`,
		"999999999999h": `"999999999999h" is not a duration such as 500ms, 30s or 2h, at most 876000h (100 years)`,
		"-1s":           "-1s is below 0",
		"-2562047h":     "-2562047h0m0s is below 0",
		"30":            `"30" is not a duration such as 500ms, 30s or 2h, at most 876000h (100 years)`,
		"":              `"" is not a duration such as 500ms, 30s or 2h, at most 876000h (100 years)`,
		"7d":            `"7d" is not a duration such as 500ms, 30s or 2h, at most 876000h (100 years)`,
	} {
		_, err := Parse(text)
		if want == "" {
			require.NoError(t, err, text)
		} else {
			require.EqualError(t, err, want, text)
		}
	}
	require.True(t, time.Now().Add(2*Longest).After(time.Now().Add(Longest)), "two of them fit beside each other")
	require.Positive(t, time.Now().Add(2*Longest).UnixNano())
}
