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

func TestToken(t *testing.T) {
	for orderNo, want := range map[string]string{
		"A-1001":            "A-1001",
		"sha256-x":          "sha256-x",
		"order_no":          "order_no",
		"a.b":               "a%2Eb",
		"a b*>":             "a%20b%2A%3E",
		"100%":              "100%25",
		"é":                 "%C3%A9",
		"\x00\n\x7f":        "%00%0A%7F",
		"":                  "",
		"_INBOX.":           "_INBOX%2E",
		"/shop/2026/000001": "%2Fshop%2F2026%2F000001",
	} {
		require.Equal(t, want, order.Token(orderNo), "%q", orderNo)
	}
}

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
