package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
)

// authority signs certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string // the file of its certificate
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t}
	pair := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, time.Hour)
	a.cert, a.key = pair.Leaf, pair.PrivateKey.(*ecdsa.PrivateKey)
	a.pem, _ = a.files(pair)
	return a
}

// sign makes a certificate, by itself if there is no authority yet.
func (a *authority) sign(c *x509.Certificate, valid time.Duration) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Minute), time.Now().Add(valid)
	parent, by := a.cert, a.key
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	require.NoError(a.t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// files writes a certificate and its key.
func (a *authority) files(pair tls.Certificate) (cert, key string) {
	a.t.Helper()
	dir := a.t.TempDir()
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(a.t, err)
	cert, key = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	require.NoError(a.t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600))
	require.NoError(a.t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return cert, key
}

// TestClientsWithCertificates are known by a subject, a host or a URI in it. A certificate of
// another authority, one that is over, and one of nobody open nothing. Tokens go on working.
func TestClientsWithCertificates(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
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
		o.Clients, o.TLSClientCA = path, a.pem
		o.TLSCert, o.TLSKey = a.files(a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "door"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, time.Hour))
	})
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	with := func(pairs ...tls.Certificate) {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: pairs}}
		t.Cleanup(transport.CloseIdleConnections)
		r.client = &http.Client{Transport: transport}
	}
	client := func(c *x509.Certificate, valid time.Duration) tls.Certificate {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		return a.sign(c, valid)
	}
	uri, err := url.Parse("spiffe://example/till")
	require.NoError(t, err)
	for name, c := range map[string]*x509.Certificate{
		"shop": {Subject: pkix.Name{CommonName: "shop", Organization: []string{"Example"}}},
		"desk": {Subject: pkix.Name{CommonName: "x"}, DNSNames: []string{"Desk.example"}},
		"till": {URIs: []*url.URL{uri}},
	} {
		with(client(c, time.Hour))
		b := r.do("POST", "/v1/orders", body(name), headerKey, "1")
		require.Equal(t, http.StatusCreated, b.status, b.text)
		require.Equal(t, name, r.do("GET", "/v1/orders/"+name, "").outcome(t).Source)
	}
	require.Equal(t, "unknown-order", r.do("GET", "/v1/orders/other", "", "Authorization", "Bearer "+token).problem(t).name(), "a token goes first")
	with(client(&x509.Certificate{Subject: pkix.Name{CommonName: "nobody"}}, time.Hour))
	p := r.do("GET", "/v1/orders/A", "").problem(t)
	require.Equal(t, []string{"unauthorized", "certificate"}, []string{p.name(), p.Where})
	require.Contains(t, p.Seen, "subject:CN=nobody")
	with(client(&x509.Certificate{Subject: pkix.Name{CommonName: "shop", Organization: []string{"Example"}}, DNSNames: []string{"desk.example"}}, time.Hour))
	require.Equal(t, "unauthorized", r.do("GET", "/v1/orders/A", "").problem(t).name(), "it names two clients")
	with()
	require.Equal(t, "header Authorization", r.do("GET", "/v1/orders/A", "").problem(t).Where)
	for name, pair := range map[string]tls.Certificate{
		"over":              client(&x509.Certificate{Subject: pkix.Name{CommonName: "shop", Organization: []string{"Example"}}}, -time.Second),
		"another authority": newAuthority(t).sign(&x509.Certificate{Subject: pkix.Name{CommonName: "shop", Organization: []string{"Example"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, time.Hour),
	} {
		r.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}}}
		_, err := r.try("GET", "/v1/orders/A", nil)
		require.ErrorContains(t, err, "tls: ", name)
	}

	with(client(&x509.Certificate{Subject: pkix.Name{CommonName: "shop", Organization: []string{"Example"}}}, 2*time.Second))
	require.Equal(t, http.StatusNotFound, r.do("GET", "/v1/orders/A", "").status)
	require.Eventually(t, func() bool { // on the same connection
		return r.do("GET", "/v1/orders/A", "").status == http.StatusUnauthorized
	}, patience, 20*time.Millisecond)

	next := newAuthority(t) // takes the place of the first
	successor, err := os.ReadFile(next.pem)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.pem, successor, 0o600))
	pair := next.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "shop", Organization: []string{"Example"}}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, time.Hour)
	r.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }}}}
	require.Eventually(t, func() bool {
		b, err := r.try("GET", "/v1/orders/A", nil)
		return err == nil && b.status == http.StatusNotFound
	}, patience, 200*time.Millisecond)
}

// TestADoorWithAnExpiredCertificate opens, since workers begin with it, and says what clients will
// meet. A check of the settings names it.
func TestADoorWithAnExpiredCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.files(a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: "door"}}, -time.Second))
	r := newRig(t, func(o *Options, _ *queue.Config) { o.TLSCert, o.TLSKey = cert, key })
	require.Contains(t, r.log.String(), "ORDERPOST_GATEWAY_TLS_CERT_FILE: "+cert+" expired on ")
	require.ErrorContains(t, Config{Listen: "127.0.0.1:0", TLSCert: cert, TLSKey: key}.CheckFiles(), cert+" expired on ")
}
