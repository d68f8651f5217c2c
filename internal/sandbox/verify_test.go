package sandbox

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestVectorsPassTheSignatureCheck sends each vector's body and signature as a
// client would, at the time of the vector.
func TestVectorsPassTheSignatureCheck(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			s, err := New(Config{
				Keys: map[string]string{"key": v.Secret},
				Now:  func() time.Time { return time.UnixMilli(v.Timestamp) },
			})
			require.NoError(t, err)
			post := func(body, signature string) string {
				r := httptest.NewRequest(http.MethodPost, createPath, bytes.NewReader([]byte(body)))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("X-API-Key", "key")
				r.Header.Set("X-Signature", signature)
				w := httptest.NewRecorder()
				s.Handler().ServeHTTP(w, r)
				return w.Body.String()
			}
			// Many vectors lack the fields of an order, which is looked at only
			// after the signature.
			require.Regexp(t, `"code":(0|100422)`, post(v.SentBody, v.Signature))
			l := s.Ledger()
			require.EqualValues(t, 1, l.Answers["created"]+l.Answers["incomplete"])

			wrong := []byte(v.Signature)
			wrong[0] ^= 1
			require.Contains(t, post(v.SentBody, string(wrong)), "100104")
		})
	}
}

func TestEveryDigitOfTheSignatureCounts(t *testing.T) {
	mac := newPair("key", "secret").sign(nil, []byte("text"))
	room := make([]byte, len(mac))
	good := hexMAC("secret", "text")
	require.True(t, matches(room, good, mac))
	for i := range good {
		digit := byte('0')
		if good[i] == digit {
			digit = '1'
		}
		require.False(t, matches(room, good[:i]+string(digit)+good[i+1:], mac), i)
	}
	require.False(t, matches(room, good+"00", mac))
	require.False(t, matches(room, good[:62], mac))
}

// FuzzVerify sends anything at all to the handler: it must answer each request
// once, create nothing without a right signature, and never panic.
func FuzzVerify(f *testing.F) {
	for _, v := range readVectors(f)[:40] {
		f.Add([]byte(v.SentBody), v.Signature, "key", "application/json")
	}
	f.Add([]byte(`{"order_no":"A","timeout":1,"timestamp":1750000000000}`), "", "", "")
	s, err := New(Config{Keys: map[string]string{"key": "secret"}, Now: func() time.Time { return testTime }})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body []byte, signature, key, contentType string) {
		r := httptest.NewRequest(http.MethodPost, createPath, bytes.NewReader(body))
		r.Header = http.Header{"Content-Type": {contentType}, "X-Api-Key": {key}, "X-Signature": {signature}}
		w := httptest.NewRecorder()
		before := s.Ledger()
		s.Handler().ServeHTTP(w, r)
		after := s.Ledger()
		require.Equal(t, before.Requests+1, after.Requests)
		require.Equal(t, w.Code == http.StatusOK, after.Creations == before.Creations+1)
	})
}
