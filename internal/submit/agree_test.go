package submit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// What agrees lets through at once, the close look accepts too.
func FuzzAgreesIsAcceptedByTheCloseLook(f *testing.F) {
	for _, body := range []string{`{}`, `{"code":0}`, `{"code":"200","data":{"code":5}}`, `{"success":true,"error":null}`, `{"code":1}`, `{"code":0,"code":1}`,
		`{"code":0}x`, `[]`, `{"cod\u0065":1}`, `{"code":0.0}`, `{"error":{}}`, `{"success":1}`, "{\"a\":\"\xff\"}", `{"errno":-0}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !agrees(body) {
			return
		}
		a := answer{status: 200, body: body, complete: true}
		a.parse()
		object, ok := a.json.(map[string]any)
		require.True(t, ok, "%q", body)
		for name := range agreeing {
			if value, there := object[name]; there {
				require.False(t, contradicts(name, value), "%q", body)
			}
		}
	})
}

func TestUsualAcceptancesNeedNoCloseLook(t *testing.T) {
	for _, body := range []string{`{}`, `{"code":0,"message":"ok","data":{"id":"x"}}`, `{"success":true}`, `{"error":null}`} {
		raw := []byte(body)
		require.True(t, agrees(raw), body)
	}
	j := judgeSuccess(&answer{status: 200, body: []byte(`{"code":0}`), complete: true})
	require.Equal(t, order.Accepted, j.verdict)
	require.Equal(t, "accepted by status 200", j.reason)
}
