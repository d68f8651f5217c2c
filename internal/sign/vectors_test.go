package sign_test

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sign"
)

// vector is one line of testdata/signing.jsonl: vectors made by an
// implementation under V8. Body is base64 in BodyBytes where it is not UTF-8.
type vector struct {
	Name         string     `json:"name"`
	Secret       string     `json:"secret"`
	Timestamp    int64      `json:"timestamp"`
	Body         string     `json:"body"`
	BodyBytes    []byte     `json:"body_b64"`
	StringToSign string     `json:"string_to_sign"`
	Signature    string     `json:"signature"`
	SentBody     string     `json:"sent_body"`
	Error        order.Code `json:"error"`
}

func (v vector) bytes() []byte {
	if v.BodyBytes != nil {
		return v.BodyBytes
	}
	return []byte(v.Body)
}

// vectorCount keeps a truncated file from passing.
const vectorCount = 515

func readVectors(tb testing.TB) []vector {
	tb.Helper()
	file, err := os.Open("testdata/signing.jsonl")
	require.NoError(tb, err)
	defer file.Close()
	var all []vector
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var v vector
		require.NoError(tb, json.Unmarshal(lines.Bytes(), &v))
		all = append(all, v)
	}
	require.NoError(tb, lines.Err())
	require.Len(tb, all, vectorCount)
	return all
}

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			o, err := order.Canonicalize(v.bytes())
			if v.Error != "" {
				var refused *order.Error
				require.ErrorAs(t, err, &refused)
				require.Equal(t, v.Error, refused.Code, "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, v.StringToSign, string(o.AppendStringToSign(nil, v.Timestamp)))
			signer, err := sign.New(v.Secret)
			require.NoError(t, err)
			body, signature, err := signer.Sign(nil, o, v.Timestamp)
			require.NoError(t, err)
			require.Equal(t, v.SentBody, string(body))
			require.Equal(t, v.Signature, signature)
			require.NoError(t, signer.Verify(body, signature))
		})
	}
}
