package submit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

func BenchmarkSubmit(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"code":0}`)
	}))
	defer srv.Close()
	s, err := New(DefaultConfig(srv.URL), Deps{Keys: StaticKeys{{Key: keyA, Signer: &stubSigner{"a"}}}, Log: zerolog.Nop()})
	require.NoError(b, err)
	defer s.Close()
	o := newOrder(b, "n")
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			s.Submit(b.Context(), &order.Submission{Order: o})
		}
	})
}
