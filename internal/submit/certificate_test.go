package submit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
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
	"orderpost/internal/sandbox/authority"
	"orderpost/internal/submit/gate"
)

// An API whose certificate becomes a wrong one shuts the gate, whose reason says what is
// wrong with it and who mends it. Nothing is sent to that server. With the right
// certificate the gate opens by itself, and every order is accepted.
func TestTheGateSaysWhatIsWrongWithACertificate(t *testing.T) {
	now := time.Now()
	a, err := authority.New("authority")
	require.NoError(t, err)
	good, err := a.Server()
	require.NoError(t, err)
	expired, err := a.Sign(x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(-time.Hour)})
	require.NoError(t, err)
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(trusted, a.PEM, 0o600))
	words := "certificate not trusted: it expired on " + now.Add(-time.Hour).UTC().Format(time.RFC3339) + ": whoever runs the API must renew it"

	var cert atomic.Pointer[tls.Certificate]
	cert.Store(&good)
	var wrong atomic.Int64
	api := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if cert.Load() != &good {
			wrong.Add(1)
		}
		w.Header().Set("Connection", "close") // each request looks at the certificate
		w.Write([]byte(`{"code":0}`))         //nolint:errcheck // the client is gone
	}))
	api.Config.ErrorLog = log.New(io.Discard, "", 0)
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
	require.Equal(t, order.Accepted, s.Submit(t.Context(), &order.Submission{Order: newOrder(t, "first")}).Verdict)

	cert.Store(&expired)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := order.Report{}
			for ctx.Err() == nil && r.End != order.EndAnswer {
				r = *s.Submit(ctx, &order.Submission{Order: newOrder(t, fmt.Sprint("n-", i)), History: r.History})
				require.False(t, r.History.Unsure, "nothing was sent")
			}
			require.Equal(t, order.Accepted, r.Verdict, "%s %s", r.Reason, r.Error)
		})
	}
	require.Eventually(t, func() bool {
		for _, b := range s.Gate().State().Blocks {
			if b.Name == gate.BlockBreaker && strings.Contains(b.Reason, words) && strings.Contains(b.Reason, "the account was asked, and failed: "+words) {
				return true
			}
		}
		return false
	}, 20*time.Second, time.Millisecond, "%+v", s.Gate().State())
	require.Zero(t, wrong.Load())
	cert.Store(&good)
	wg.Wait()
	require.Eventually(t, func() bool { return s.Gate().State().Open }, 20*time.Second, time.Millisecond)
}
