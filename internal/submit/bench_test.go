package submit

import (
	"io"
	"net/http"
	"net/http/httptest"
	"orderpost/internal/order"
	"testing"

	"github.com/rs/zerolog"

	"github.com/stretchr/testify/require"
)

func BenchmarkJudge(b *testing.B) {
	rules, err := LoadRules("../../examples/rules/code.yaml")
	require.NoError(b, err)
	for name, r := range map[string]*Rules{"built-in": nil, "rules": rules} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a := answer{status: 200, body: []byte(`{"code":0,"message":"ok","data":{"id":"x"}}`), complete: true}
				r.judge(&a, 1)
			}
		})
	}
}

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
			s.Submit(b.Context(), order.Submission{Order: o})
		}
	})
}
