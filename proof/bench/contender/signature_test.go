package contender

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sign"
)

// TestSignatures: our signer and the API's own code agree on every order of the bench.
func TestSignatures(t *testing.T) {
	signer, err := sign.New(APISecret)
	require.NoError(t, err)
	for i := range 2000 {
		data := Order(i, time.Now())
		require.Len(t, data, OrderBytes)
		o, err := order.Parse(data)
		require.NoError(t, err)
		body, signature, err := signer.Sign(nil, o, 1_700_000_000_000)
		require.NoError(t, err)
		require.True(t, verify(body, []byte(signature)))

		body[len(body)-3]++ // of the timestamp
		require.False(t, verify(body, []byte(signature)))
	}
}
