package answer

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

func TestWhatABodySaysAboutTheOrder(t *testing.T) {
	for _, c := range []struct {
		body, orderNo string
		ours          bool
		other         string // as JSON
		numbered      bool
	}{
		{`{"order_no":"A-1"}`, "A-1", true, ``, false},
		{`{"data":{"orderNo":"A-1"}}`, "A-1", true, ``, false},
		{`{"data":[{"Order-No":"A-1"}]}`, "A-1", true, ``, false},
		{`{"order_no":["A-1"]}`, "A-1", true, ``, false},
		{`{"order_no":"\u0041-1"}`, "A-1", true, ``, false},
		{`{"order\u005fno":"A-2"}`, "A-1", false, `"A-2"`, true},
		{`{"order_no":17}`, "17", true, ``, false},
		{`{"order_no":18}`, "17", false, `18`, true},
		{`{"order_no":""}`, "A-1", false, `""`, false},
		{`{"order_no":null,"orderNo":true}`, "A-1", false, ``, false},
		{`{"client_ref":"ORDER-2026-1"}`, "ORDER-2026-1", true, ``, false},
		{`{"status":"ok"}`, "ok", false, ``, false}, // too short to be an echo anywhere
		{`{"order_no":"A-1","data":{"order_no":"A-2"}}`, "A-1", true, `"A-2"`, true},
		{`{"order_no":["is not known, see 17"]}`, "A-1", false, `"is not known, see 17"`, false},
		{`{"errors":{"order_no":"E17"}}`, "A-1", false, `"E17"`, false},
		{`{"order_no":"A-2"`, "A-1", false, `"A-2"`, true}, // broken, but seen
		{`{"order_no":"A-2"}`, "", false, ``, false},
	} {
		f := examine([]byte(c.body), c.orderNo)
		require.Equal(t, c.ours, f.ours, c.body)
		require.Equal(t, c.other, string(f.other), c.body)
		require.Equal(t, c.numbered, f.otherIsNumber, c.body)
	}
}

// If the scanner finds no contradiction, a reader of the whole document finds
// none either.
func FuzzFindings(f *testing.F) {
	for _, body := range []string{`{}`, `{"code":0}`, `{"code":"200","data":{"code":5}}`, `{"success":true,"error":null}`, `{"code":1}`, `{"code":0,"code":1}`,
		`{"code":0}x`, `[]`, `{"cod\u0065":1}`, `{"code":0.0}`, `{"error":{}}`, `{"success":1}`, "{\"a\":\"\xff\"}", `{"errno":-0}`, `{"a":[{"order_no":"n"}],"success":[]}`,
		`{"error_code":-1}`, `{"success":-1}`, `{"a":1e999}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		found := examine(body, "n")
		var object map[string]jsontext.Value // numbers may be beyond a float64
		err := json.Unmarshal(body, &object)
		require.Equal(t, err == nil && object != nil, found.object, "%q", body)
		if !found.object || found.contradiction != "" {
			return
		}
		read := func(name string) (value any, there bool) {
			raw, there := object[name]
			if there { // one that is beyond a float64 contradicts
				require.NoError(t, json.Unmarshal(raw, &value), "%q", body)
			}
			return value, there
		}
		for name, good := range map[string][]any{"code": {0., 200., "0", "200"}, "errno": {0., 200., "0", "200"}, "error": {nil}} {
			if value, there := read(name); there {
				require.Contains(t, good, value, "%q", body)
			}
		}
		if value, there := read("success"); there {
			require.NotContains(t, []any{false, nil, 0., "", "false", "no"}, value, "%q", body)
			if n, is := value.(float64); is {
				require.Equal(t, 1., n, "%q", body)
			}
		}
		if value, there := read("error_code"); there {
			if n, is := value.(float64); is {
				require.Contains(t, []float64{0, 200}, n, "%q", body)
			}
		}
	})
}
