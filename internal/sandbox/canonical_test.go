package sandbox

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
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
			require.NoError(t, c.doc.read([]byte(v.Body)))
			if want, last := strings.CutSuffix(v.SentBody, fmt.Sprintf(`,"timestamp":%d}`, v.Timestamp)); last && c.doc.field("timestamp") == nil {
				require.Equal(t, want+"}", string(c.doc.out))
			}
			require.NoError(t, c.doc.read([]byte(v.SentBody)))
			require.Equal(t, v.SentBody, string(c.doc.out), "what was sent is in canonical form already")
			require.Equal(t, v.StringToSign, string(c.doc.stringToSign()))
			mac := newPair("key", v.Secret).sign(nil, c.doc.stringToSign())
			require.Equal(t, v.Signature, hex.EncodeToString(mac))
		})
	}
}

// TestNumbersAreRoundedAsJavaScriptRoundsThem: signers refuse these, so no vector has them.
func TestNumbersAreRoundedAsJavaScriptRoundsThem(t *testing.T) {
	for number, want := range map[string]string{
		"9007199254740993": "9007199254740992", "12345678901234567": "12345678901234568", "123456789012345678": "123456789012345680",
		"-9007199254740993": "-9007199254740992", "1e-400": "0", "-1e-400": "0", "0.1000000000000000055": "0.1", "1e23": "1e+23", "100000000000000000000000": "1e+23",
	} {
		d := new(document)
		require.NoError(t, d.read([]byte(`{"v":`+number+`}`)))
		require.Equal(t, `{"v":`+want+`}`, string(d.out), number)
	}
}

func TestBodiesThatReadersDisagreeAboutAreRefused(t *testing.T) {
	nested := func(depth int) string {
		return `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
	}
	many := func(last string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range 20_000 {
			b.WriteString(`"n` + strconv.Itoa(i) + `":0,`)
		}
		return b.String() + `"` + last + `":0}`
	}
	for _, c := range []struct{ body, err string }{
		{`{"a":1,"b":2,"a":1}`, "a name occurs twice at byte 18"},
		{`{"a":1,"\u0061":2}`, "a name occurs twice"},
		{`{"x":{"a":1,"a":2}}`, "a name occurs twice"},
		{`{"x":[{"a":{}},{"a":{}}],"a":{}}`, ""},
		{many("n1"), "a name occurs twice"},
		{many("n20000"), ""},
		{`{"__proto__":1}`, "__proto__"},
		{`{"x":{"\u005f_proto__":1}}`, "__proto__"},
		{`{"a":"\ud800"}`, "an unpaired surrogate"},
		{`{"a":"\udc00\ud800"}`, "an unpaired surrogate"},
		{`{"a":"\ud83d\u0041"}`, "an unpaired surrogate"},
		{"{\"a\":\"\xed\xa0\x80\"}", "not UTF-8"},
		{"\ufeff{}", "not a JSON object"},
		{`{"a":1e309}`, "a number out of range at byte 5"},
		{`{"a":1}{}`, "something follows"},
		{`{"a":1,}`, "a name is missing"},
		{`{"a" 1}`, "a colon is missing"},
		{`{"a":1 "b":2}`, "a comma or the closing bracket is missing"},
		{"{\"a\":\"\n\"}", "a control character"},
		{`{"a":"`, "a string does not end"},
		{`{"a":"\`, "a string does not end"},
		{`{"a":"\u00`, "a string does not end"},
		{nested(maxDepth), ""},
		{nested(maxDepth + 1), "nested too deep"},
		{strings.Repeat(`{"a":`, maxDepth+1), "nested too deep"},
		{strings.Repeat("[", 1<<20), "not a JSON object"},
	} {
		err := new(document).read([]byte(c.body))
		if c.err == "" {
			require.NoError(t, err, "%.60s", c.body)
			continue
		}
		require.ErrorContains(t, err, c.err, "%.60s", c.body)
	}
}
