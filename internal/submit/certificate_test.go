package submit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
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
	"orderpost/internal/submit/gate"
)

// An API whose certificate becomes a wrong one shuts the gate, whose reason says what is
// wrong with it and who mends it. Nothing is sent to that server. With the right
// certificate the gate opens by itself, and every order is accepted.
func TestTheGateSaysWhatIsWrongWithACertificate(t *testing.T) {
	now := time.Now()
	good, goodPEM := issued(t, now.Add(time.Hour))
	expired, expiredPEM := issued(t, now.Add(-time.Hour))
	trusted := filepath.Join(t.TempDir(), "all.pem")
	require.NoError(t, os.WriteFile(trusted, append(goodPEM, expiredPEM...), 0o600))
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
	require.Equal(t, order.Accepted, s.Submit(t.Context(), order.Submission{Order: newOrder(t, "first")}).Verdict)

	cert.Store(&expired)
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

// issued returns a certificate for 127.0.0.1 that is its own authority, and its PEM.
func issued(t *testing.T, until time.Time) (tls.Certificate, []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-24 * time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
