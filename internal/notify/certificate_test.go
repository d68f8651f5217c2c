package notify

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/platform/secret"
	"orderpost/internal/sandbox/authority"
)

// TestOurCertificate: a receiver that wants a certificate is shown ours.
func TestOurCertificate(t *testing.T) {
	t.Parallel()
	ours, err := authority.New("ours")
	require.NoError(t, err)
	pair, err := ours.Sign(x509.Certificate{Subject: pkix.Name{CommonName: "orderpost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	require.NoError(t, err)
	cert, key, err := authority.PEM(pair)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, text := range map[string][]byte{"cert": cert, "key": key} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	shown := make(chan string, 16)
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		shown <- r.TLS.PeerCertificates[0].Subject.CommonName
	}))
	receiver.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	receiver.TLS.ClientCAs.AppendCertsFromPEM(ours.PEM)
	receiver.StartTLS()
	t.Cleanup(receiver.Close)

	q := openQueue(t, startBroker(t))
	newLedger(t, q).put("A-1", "accepted")
	s := newTestSender(t, q, receiver.URL, func(c *Config) {
		c.TLSCert, c.TLSKey = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	})
	s.client.transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	s.client.transport.TLSClientConfig.RootCAs.AddCert(receiver.Certificate())
	run(t, s)
	select {
	case name := <-shown:
		require.Equal(t, "orderpost", name)
	case <-time.After(time.Minute):
		require.Fail(t, "nothing arrived")
	}
	_, err = NewSender(Options{Config: Config{URL: receiver.URL, Secret: secret.Text(NewSecret()), Begin: beginNow, TLSCert: "nowhere", TLSKey: "nowhere"}, Queue: q})
	require.ErrorContains(t, err, "ORDERPOST_NOTIFY_TLS_CERT_FILE")
}
