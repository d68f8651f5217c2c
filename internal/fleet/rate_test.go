package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRatesAsPeopleReadThem: a limit that is small is not shown as 0, nor a large one as a power.
func TestRatesAsPeopleReadThem(t *testing.T) {
	for text, want := range map[string]string{"50/s": "50", "600/m": "10", "100/m": "1.667", "5/h": "0.001389", "12345.67/s": "12346", "1234567": "1234567", "default": ""} {
		l, err := ReadLimit(text)
		require.NoError(t, err)
		if l == nil {
			require.Empty(t, want)
			continue
		}
		require.Equal(t, want, RateText(l.PerSecond), text)
	}
	for _, text := range []string{"", "0", "-5", "5/d", "5,5", "NaN", "inf", "1e-323/h"} {
		_, err := ReadLimit(text)
		require.ErrorContains(t, err, "is not a limit", text)
	}
}
