package sandbox

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// vector is one line of testdata/signing.jsonl: a body that signers must
// accept, and what V8 made of it.
type vector struct {
	Name         string `json:"name"`
	Secret       string `json:"secret"`
	Timestamp    int64  `json:"timestamp"`
	Body         string `json:"body"`
	StringToSign string `json:"string_to_sign"`
	Signature    string `json:"signature"`
	SentBody     string `json:"sent_body"`
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	file, err := os.Open("testdata/signing.jsonl")
	require.NoError(t, err)
	defer file.Close()
	var vectors []vector
	for dec := json.NewDecoder(bufio.NewReader(file)); dec.More(); {
		var v vector
		require.NoError(t, dec.Decode(&v))
		vectors = append(vectors, v)
	}
	require.Len(t, vectors, 346)
	return vectors
}

func TestVectorsAreReadAsV8ReadsThem(t *testing.T) {
	var c call // one for all, as in the server: nothing may stick to it
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			require.NoError(t, c.doc.read([]byte(v.SentBody)))
			require.Equal(t, v.SentBody, string(c.doc.out), "what was sent is in canonical form already")
			require.Equal(t, v.StringToSign, string(c.doc.stringToSign()))
			mac := newPair("key", v.Secret).sign(nil, c.doc.stringToSign())
			require.Equal(t, v.Signature, hex.EncodeToString(mac))
		})
	}
}
