package submit

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

// An API whose certificate becomes a wrong one shuts the gate, whose reason says what is
// wrong with it and who mends it. Nothing is sent to that server. With the right
// certificate the gate opens by itself, and every order is accepted.
func TestTheGateSaysWhatIsWrongWithACertificate(t *testing.T) {
	now, day := time.Now(), 24*time.Hour
	good, ca := issued(t, "127.0.0.1", now.Add(-day), now.Add(day))
	other, otherCA := issued(t, "api.example", now.Add(-day), now.Add(day))
	expired, expiredCA := issued(t, "127.0.0.1", now.Add(-2*day), now.Add(-time.Hour))
	var all bytes.Buffer
	for _, file := range []string{ca, otherCA, expiredCA} {
		pem, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(pem)
	}
	trusted := filepath.Join(t.TempDir(), "all.pem")
	require.NoError(t, os.WriteFile(trusted, all.Bytes(), 0o600))
	for name, c := range map[string]struct {
		cert  tls.Certificate
		words string
	}{
		"another name": {other, "certificate not trusted: it is for api.example, not for 127.0.0.1: is ORDERPOST_API_URL right?"},
		"expired":      {expired, "certificate not trusted: it expired on " + now.Add(-time.Hour).UTC().Format(time.RFC3339) + ": whoever runs the API must renew it"},
	} {
		t.Run(name, func(t *testing.T) {
			var cert atomic.Pointer[tls.Certificate]
			cert.Store(&good)
			var wrong atomic.Int64
			api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if cert.Load() != &good {
					wrong.Add(1)
				}
				w.Write([]byte(`{"code":0}`)) //nolint:errcheck // the client is gone
			}))
			api.Config.ErrorLog = discardLog
			api.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return &tls.Config{Certificates: []tls.Certificate{*cert.Load()}, SessionTicketsDisabled: true}, nil
			}}
			api.StartTLS()
			t.Cleanup(api.Close)
			cfg := DefaultConfig(api.URL)
			cfg.CAFile, cfg.BreakerMin, cfg.BreakerOpen, cfg.GatePatience = trusted, 4, 10*time.Millisecond, time.Second
			cfg.RetryBase, cfg.RetryMax = time.Millisecond, 5*time.Millisecond
			s, err := New(cfg, Deps{Keys: StaticKeys{{Key: keyA, Signer: &stubSigner{"a"}}}, Log: zerolog.Nop()})
			require.NoError(t, err)
			t.Cleanup(s.Close)
			s.client.pool.age = 0 // each request looks at the certificate
			require.Equal(t, order.Accepted, s.Submit(t.Context(), order.Submission{Order: newOrder(t, "first")}).Verdict)

			cert.Store(&c.cert)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					r := order.Report{}
					for ctx.Err() == nil && r.End != order.EndAnswer {
						r = s.Submit(ctx, order.Submission{Order: newOrder(t, fmt.Sprint("n-", i)), History: r.History})
						require.False(t, r.History.Unsure, "nothing was sent")
					}
					require.Equal(t, order.Accepted, r.Verdict, "%s %s", r.Reason, r.Error)
				})
			}
			require.Eventually(t, func() bool {
				for _, b := range s.Gate().State().Blocks {
					if b.Name == gate.BlockBreaker && strings.Contains(b.Reason, c.words) && strings.Contains(b.Reason, "the account was asked, and failed: "+c.words) {
						return true
					}
				}
				return false
			}, 20*time.Second, time.Millisecond, "%+v", s.Gate().State())
			require.Zero(t, wrong.Load())
			cert.Store(&good)
			wg.Wait()
			require.Eventually(t, func() bool { return s.Gate().State().Open }, 20*time.Second, time.Millisecond)
		})
	}
}
