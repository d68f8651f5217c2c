package order_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"orderpost/internal/order"
)

func TestTokenOfWhatIsTooLong(t *testing.T) {
	longest := strings.Repeat("é", order.MaxOrderNo/2) + "e"
	require.LessOrEqual(t, len(order.Token(longest)), order.MaxToken, "a valid order number is never hashed")

	fits := strings.Repeat("a", order.MaxToken)
	require.Equal(t, fits, order.Token(fits))
	foreign := fits + "a"
	sum := sha256.Sum256([]byte(foreign))
	require.Equal(t, "sha256-"+hex.EncodeToString(sum[:]), order.Token(foreign))
	escaped := strings.Repeat(".", order.MaxToken/3+1)
	require.True(t, strings.HasPrefix(order.Token(escaped), "sha256-"))
}

func TestTokenRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		orderNo := string(rapid.SliceOfN(rapid.Byte(), 1, order.MaxOrderNo).Draw(t, "order_no"))
		token := order.Token(orderNo)
		require.Equal(t, strings.Trim(token, "%ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"), "")
		back, err := order.OrderNoFromToken(token)
		require.NoError(t, err)
		require.Equal(t, orderNo, back)
	})
}

// Whatever is accepted as a token must be the one spelling of its order number.
func TestTokensAreUnique(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`([A-Za-z0-9_.%-]|%[0-9A-Fa-f]{2}){0,12}`).Draw(t, "token")
		if orderNo, err := order.OrderNoFromToken(token); err == nil {
			require.Equal(t, token, order.Token(orderNo))
		}
	})
}

func TestOrderNoFromTokenRefuses(t *testing.T) {
	for _, token := range []string{
		"", "a.b", "a b", "a*", "%", "%2", "a%2", "%2e", "%zz", "%41", "é", "\x00",
		strings.Repeat("a", order.MaxToken+1),
	} {
		_, err := order.OrderNoFromToken(token)
		require.Error(t, err, "%q", token)
	}
}
