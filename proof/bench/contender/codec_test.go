package contender

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sign"
)

// TestSignatures: our signer, the lean worker's codec and the API's own code
// agree on every order of the bench.
func TestSignatures(t *testing.T) {
	signer, err := sign.New(APISecret)
	require.NoError(t, err)
	hand := newCodec()
	for i := range 2000 {
		data := Order(i, time.Now())
		require.Len(t, data, OrderBytes)
		o, err := order.Parse(data)
		require.NoError(t, err)
		body, signature, err := signer.Sign(nil, o, 1_700_000_000_000)
		require.NoError(t, err)
		require.True(t, verify(body, []byte(signature)))

		number, err := hand.stamp(data, 1_700_000_000_000)
		require.NoError(t, err)
		require.Equal(t, OrderNo(i), string(number))
		require.Equal(t, signature, string(hand.signature))
		require.JSONEq(t, string(body), string(hand.body))
		require.True(t, verify(hand.body, hand.signature))

		hand.body[len(hand.body)-3]++ // of the timestamp
		require.False(t, verify(hand.body, hand.signature))
	}
}

// TestCodecRefuses: the lean codec posts no order that it does not understand.
func TestCodecRefuses(t *testing.T) {
	hand := newCodec()
	for _, data := range []string{``, `{}`, `[1]`, `{"a":1}`, `{"order_no":""}`, `{"order_no":"A","timestamp":1}`, `{"order_no":"A\n"}`, `{"order_no":"A"`, `{"order_no":"A"} `} {
		_, err := hand.stamp([]byte(data), 1)
		require.ErrorIs(t, err, errUnknownJSON, data)
	}
}

// TestAppendOutcome: the outcome written by hand is what encoding/json reads.
func TestAppendOutcome(t *testing.T) {
	for _, answer := range []string{`{"code":0}`, "", "a \"quoted\" answer\n\x01", "ü\u2028"} {
		var read outcome
		require.NoError(t, json.Unmarshal(appendOutcome(nil, []byte("A-1"), http.StatusOK, []byte(answer)), &read))
		require.Equal(t, outcome{OrderNo: "A-1", Status: http.StatusOK, Answer: answer, At: read.At}, read)
		require.WithinDuration(t, time.Now(), read.At, time.Minute)
	}
	require.True(t, json.Valid(appendOutcome(nil, []byte("A-1"), http.StatusOK, []byte("\xff"))))
}
