package sandbox

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// benchOrder is an order of about 300 bytes, with its string to sign.
func benchOrder(n int, timestamp int64) (body, text string) {
	fields := []struct{ name, value string }{
		{"amount", "1250.00"},
		{"callback_url", "https://shop.example/orders/callback?tenant=42"},
		{"currency", "EUR"},
		{"customer", "Zoë Krause"},
		{"memo", "two boxes, leave at the back door"},
		{"order_no", "ORD-" + strconv.Itoa(n)},
		{"product", "annual-plan"},
	}
	var b, s strings.Builder
	b.WriteByte('{')
	for _, f := range fields {
		b.WriteString(`"` + f.name + `":"` + f.value + `",`)
		s.WriteString(f.name + "=" + f.value + "&")
	}
	ts := strconv.FormatInt(timestamp, 10)
	b.WriteString(`"timeout":3600,"timestamp":` + ts + `}`)
	s.WriteString("timeout=3600&timestamp=" + ts)
	return b.String(), s.String()
}

// nullWriter is a ResponseWriter that keeps the status alone.
type nullWriter struct {
	header http.Header
	status int
}

func (w *nullWriter) Header() http.Header         { return w.header }
func (w *nullWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *nullWriter) WriteHeader(status int)      { w.status = status }

// BenchmarkCreate is the handler alone, from request to answer: reading,
// verifying, the replay check and the ledger, without net/http's share.
func BenchmarkCreate(b *testing.B) {
	s, err := New(Config{Keys: map[string]string{testKey: testSecret}})
	require.NoError(b, err)
	h := s.Handler()
	now := time.Now().UnixMilli()
	type signed struct{ body, signature string }
	orders := make([]signed, b.N)
	for i := range orders {
		body, text := benchOrder(i, now)
		orders[i] = signed{body, hexMAC(testSecret, text)}
	}
	r, err := http.NewRequest(http.MethodPost, createPath, nil)
	require.NoError(b, err)
	r.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {testKey}, "X-Signature": {""}}
	w := &nullWriter{header: make(http.Header)}
	body := new(bytes.Reader)
	r.Body = io.NopCloser(body)
	b.ReportAllocs()
	b.ResetTimer()
	for _, o := range orders {
		body.Reset([]byte(o.body))
		r.ContentLength = int64(len(o.body))
		r.Header["X-Signature"][0] = o.signature
		h.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatalf("status %d", w.status)
		}
	}
	b.StopTimer()
	require.EqualValues(b, b.N, s.Ledger().OrdersCreated)
}

// BenchmarkVerify is the signature check alone.
func BenchmarkVerify(b *testing.B) {
	body, text := benchOrder(1, testTime.UnixMilli())
	p, c := newPair(testKey, testSecret), newCall()
	signature := hexMAC(testSecret, text)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		c.raw = append(c.raw[:0], body...)
		if err := c.doc.read(c.raw); err != nil {
			b.Fatal(err)
		}
		if !matches(c.sent[:], signature, p.sign(c.mac[:0], c.doc.stringToSign())) {
			b.Fatal("the signature does not match")
		}
	}
}
