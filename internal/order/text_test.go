package order

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCutKeepsCharactersWhole(t *testing.T) {
	for n := range 8 {
		require.NotContains(t, Truncate("aé漢b", n), "\ufffd")
		require.LessOrEqual(t, len(Truncate("aé漢b", n)), n)
	}
	require.Equal(t, "aé", Truncate("aé漢b", 5))
}

func TestEveryCodeHasItsWords(t *testing.T) {
	for code := range refusals {
		require.NotEmpty(t, code.Advice(), code)
		require.Contains(t, (&Error{Code: code, Seen: "<seen>"}).Error(), "<seen>", code)
	}
}
