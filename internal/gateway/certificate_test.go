package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/sandbox/authority"
)

// certificates are those of an authority.
type certificates struct {
	*authority.Authority
	t    testing.TB
	file string // its own certificate
}

func newCertificates(t testing.TB) *certificates {
	t.Helper()
	a, err := authority.New("authority")
	require.NoError(t, err)
	c := &certificates{a, t, filepath.Join(t.TempDir(), "ca")}
	require.NoError(t, os.WriteFile(c.file, a.PEM, 0o600))
	return c
}

// client is a client's, for so long.
func (c *certificates) client(of x509.Certificate, valid time.Duration) tls.Certificate {
	c.t.Helper()
	of.ExtKeyUsage, of.NotAfter = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, time.Now().Add(valid)
	pair, err := c.Sign(of)
	require.NoError(c.t, err)
	return pair
}

// door are the files of a server's certificate and of its key.
func (c *certificates) door(ends time.Time) (cert, key string) {
	c.t.Helper()
	pair, err := c.Sign(x509.Certificate{NotAfter: ends, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	require.NoError(c.t, err)
	certPEM, keyPEM, err := authority.PEM(pair)
	require.NoError(c.t, err)
	dir := c.t.TempDir()
	cert, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	require.NoError(c.t, os.WriteFile(cert, certPEM, 0o600))
	require.NoError(c.t, os.WriteFile(key, keyPEM, 0o600))
	return cert, key
}

// TestClientsWithCertificates are known by a subject, a host or a URI in it. A certificate of
// another authority, one that is over, and one of nobody open nothing. Tokens go on working.
func TestClientsWithCertificates(t *testing.T) {
	t.Parallel()
	a := newCertificates(t)
	path := filepath.Join(t.TempDir(), "clients")
	var lines string
	for name, of := range map[string]string{"shop": "subject:CN=shop,O=Example", "desk": "dns:desk.example", "till": "uri:spiffe://example/till"} {
		e, token, err := NewEntry(name, []Scope{Submit, Read}, of)
		require.NoError(t, err)
		require.Empty(t, token)
		text, err := e.YAML()
		require.NoError(t, err)
		lines += text
	}
	e, token, err := NewEntry("other", []Scope{Submit, Read})
	require.NoError(t, err)
	text, err := e.YAML()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("clients:\n"+lines+text), 0o600))
	r := newRig(t, func(o *Options, _ *queue.Config) {
		o.Clients, o.TLSClientCA = path, a.file
		o.TLSCert, o.TLSKey = a.door(time.Time{})
	})
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM)
	with := func(pairs ...tls.Certificate) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: pairs}}
		t.Cleanup(transport.CloseIdleConnections)
		r.client = &http.Client{Transport: transport}
	}
	plain, err := http.Get("http" + strings.TrimPrefix(r.URL(), "https") + "/livez") //nolint:noctx // the test's own door
	require.NoError(t, err)
	require.NoError(t, plain.Body.Close())
	require.Equal(t, http.StatusBadRequest, plain.StatusCode, "a door with TLS takes plain requests")
	shop := x509.Certificate{Subject: pkix.Name{CommonName: "shop", Organization: []string{"Example"}}}
	uri, err := url.Parse("spiffe://example/till")
	require.NoError(t, err)
	for name, c := range map[string]x509.Certificate{
		"shop": shop,
		"desk": {Subject: pkix.Name{CommonName: "x"}, DNSNames: []string{"Desk.example"}},
		"till": {URIs: []*url.URL{uri}},
	} {
		with(a.client(c, time.Hour))
		b := r.do("POST", "/v1/orders", body(name), headerKey, "1")
		require.Equal(t, http.StatusCreated, b.status, b.text)
		require.Equal(t, name, r.do("GET", "/v1/orders?order_no="+name, "").outcome(t).Source)
	}
	require.Equal(t, "unknown-order", r.do("GET", "/v1/orders?order_no=other", "", "Authorization", "Bearer "+token).problem(t).name(), "a token goes first")
	with(a.client(x509.Certificate{Subject: pkix.Name{CommonName: "nobody"}}, time.Hour))
	p := r.do("GET", "/v1/orders?order_no=A", "").problem(t)
	require.Equal(t, []string{"unauthorized", "certificate"}, []string{p.name(), p.Where})
	require.Contains(t, p.Seen, "subject:CN=nobody")
	with(a.client(x509.Certificate{Subject: pkix.Name{CommonName: "shop", Organization: []string{"Example"}}, DNSNames: []string{"desk.example"}}, time.Hour))
	require.Equal(t, "unauthorized", r.do("GET", "/v1/orders?order_no=A", "").problem(t).name(), "it names two clients")
	with()
	require.Equal(t, "header Authorization", r.do("GET", "/v1/orders?order_no=A", "").problem(t).Where)
	for name, pair := range map[string]tls.Certificate{
		"over":              a.client(shop, -time.Second),
		"another authority": newCertificates(t).client(shop, time.Hour),
	} {
		r.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}}}
		_, err := r.try("GET", "/v1/orders?order_no=A", nil)
		require.ErrorContains(t, err, "tls: ", name)
	}

	with(a.client(shop, 2*time.Second))
	require.Equal(t, http.StatusNotFound, r.do("GET", "/v1/orders?order_no=A", "").status)
	require.Eventually(t, func() bool { // on the same connection
		return r.do("GET", "/v1/orders?order_no=A", "").status == http.StatusUnauthorized
	}, patience, 20*time.Millisecond)

	next := newCertificates(t) // takes the place of the first
	require.NoError(t, os.WriteFile(a.file, next.PEM, 0o600))
	pair := next.client(shop, time.Hour)
	r.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}}}
	require.Eventually(t, func() bool {
		b, err := r.try("GET", "/v1/orders?order_no=A", nil)
		return err == nil && b.status == http.StatusNotFound
	}, patience, 200*time.Millisecond)
}

// TestADoorWithAnExpiredCertificate opens, since workers begin with it, and says what clients will
// meet. A check of the settings names it.
func TestADoorWithAnExpiredCertificate(t *testing.T) {
	t.Parallel()
	a := newCertificates(t)
	cert, key := a.door(time.Now().Add(-time.Second))
	r := newRig(t, func(o *Options, _ *queue.Config) { o.TLSCert, o.TLSKey = cert, key })
	require.Contains(t, r.log.String(), "ORDERPOST_GATEWAY_TLS_CERT_FILE: "+cert+" expired on ")
	require.ErrorContains(t, Config{Listen: "127.0.0.1:0", KeepAlive: time.Minute, TLSCert: cert, TLSKey: key}.CheckFiles(), cert+" expired on ")
}
