package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sandbox/authority"
)

// A handshake that fails says what is wrong and what to do, nothing was sent,
// and the order is tried again.
func TestHandshakesThatFail(t *testing.T) {
	now := time.Now()
	day := 24 * time.Hour
	a, err := authority.New("Test Authority")
	require.NoError(t, err)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, a.PEM, 0o600))
	issued := func(c x509.Certificate) tls.Certificate {
		pair, err := a.Sign(c)
		require.NoError(t, err)
		return pair
	}
	loopback := []net.IP{net.IPv4(127, 0, 0, 1)}
	good, other := issued(x509.Certificate{IPAddresses: loopback}), issued(x509.Certificate{DNSNames: []string{"api.example"}})
	expired := issued(x509.Certificate{IPAddresses: loopback, NotBefore: now.Add(-2 * day), NotAfter: now.Add(-day)})
	early := issued(x509.Certificate{IPAddresses: loopback, NotBefore: now.Add(day)})
	with := func(c tls.Certificate, change func(*tls.Config)) *tls.Config {
		conf := &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS10}
		if change != nil {
			change(conf)
		}
		return conf
	}
	for name, c := range map[string]struct {
		server *tls.Config // nil: no TLS
		raw    func(net.Conn)
		ca     string
		reason string
		words  string
	}{
		"unknown authority": {with(good, nil), nil, "", "certificate not trusted", `it is signed by an authority that is not trusted here ("CN=Test Authority"): name that one's PEM file in ORDERPOST_API_CA_FILE`},
		"another name":      {with(other, nil), nil, ca, "certificate not trusted", `it is for api.example, not for 127.0.0.1: is ORDERPOST_API_URL right?`},
		"expired":           {with(expired, nil), nil, ca, "certificate not trusted", "it expired on " + now.Add(-day).UTC().Format(time.RFC3339) + ": whoever runs the API must renew it"},
		"not valid yet":     {with(early, nil), nil, ca, "certificate not trusted", "it is valid from " + now.Add(day).UTC().Format(time.RFC3339) + " on only: is this machine's clock right?"},
		"TLS 1.1":           {with(good, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }), nil, ca, "TLS handshake failed", "the server speaks neither TLS 1.2 nor 1.3"},
		"no HTTP/1.1":       {with(good, func(c *tls.Config) { c.NextProtos = []string{"h3"} }), nil, ca, "TLS handshake failed", "the server offers no HTTP/1.1"},
		"no TLS": {nil, func(conn net.Conn) {
			bufio.NewReader(conn).ReadByte()
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}, ca, "TLS handshake failed", "the server there does not speak TLS: is the port in ORDERPOST_API_URL right, and is it https?"},
		"cut at once": {nil, func(net.Conn) {}, ca, "TLS handshake failed", "the connection was closed during the handshake"},
		"cut amidst":  {nil, func(conn net.Conn) { bufio.NewReader(conn).ReadByte(); conn.Write([]byte{22, 3, 3, 0, 90, 2}) }, ca, "TLS handshake failed", "the connection was closed during the handshake"},
		"silence":     {nil, func(conn net.Conn) { io.Copy(io.Discard, conn) }, ca, "TLS handshake failed", "the handshake took too long"},
		"another cert": {with(good, func(c *tls.Config) {
			c.CipherSuites, c.MaxVersion = []uint16{tls.TLS_RSA_WITH_RC4_128_SHA}, tls.VersionTLS12
		}), nil, ca, "TLS handshake failed", "the server agreed to no cipher that is safe"},
	} {
		t.Run(name, func(t *testing.T) {
			s := (&way{}).raw(t, func(_ *rawServer, _ int, conn net.Conn, _ *bufio.Reader) {
				if c.server == nil {
					c.raw(conn)
					return
				}
				tls.Server(conn, c.server).Handshake()
			})
			cl := (&way{}).client(t, "https://"+s.ln.Addr().String(), func(cfg *Config) {
				if cfg.CAFile = c.ca; name == "silence" {
					cfg.TLSTimeout = 300 * time.Millisecond
				}
			})
			x, j := cl.try(t)
			require.Equal(t, PhaseConnect, x.Phase, "%v", x.Err)
			require.Equal(t, order.Retry, j.Verdict)
			require.Equal(t, c.reason, j.Reason, "%v", x.Err)
			require.Contains(t, x.Detail(), c.words)
			require.LessOrEqual(t, len(c.reason+x.Detail()), 200, "the breaker shows that much")
			require.Contains(t, x.Err.Error(), s.ln.Addr().String())
		})
	}
}

// TestServerThatWantsACertificate: the client shows that of its files, also a new one of them. A server that refuses it, or
// the lack of one, has read no order, although in TLS 1.3 the client hears of that when it may have sent the order.
func TestServerThatWantsACertificate(t *testing.T) {
	ours, err := authority.New("ours")
	require.NoError(t, err)
	foreign, err := authority.New("foreign")
	require.NoError(t, err)
	now := time.Now()
	certificate := func(a *authority.Authority, c x509.Certificate) (cert, key string) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		pair, err := a.Sign(c)
		require.NoError(t, err)
		text, secret, err := authority.PEM(pair)
		require.NoError(t, err)
		cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
		require.NoError(t, os.WriteFile(cert, text, 0o600))
		require.NoError(t, os.WriteFile(key, secret, 0o600))
		return cert, key
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		w := &way{secure: true, version: version}
		served := 0
		s := (&way{}).raw(t, func(_ *rawServer, _ int, conn net.Conn, _ *bufio.Reader) {
			conf := w.serverTLS()
			conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
			conf.ClientCAs.AppendCertsFromPEM(ours.PEM)
			over := tls.Server(conn, conf)
			if over.Handshake() == nil {
				if _, err := http.ReadRequest(bufio.NewReader(over)); err == nil {
					served++
					io.WriteString(over, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n{\"code\":0}")
				}
			}
			io.Copy(io.Discard, conn) // until the client hangs up
		})
		url := "https://" + s.ln.Addr().String()
		good, goodKey := certificate(ours, x509.Certificate{})
		w.client(t, url, func(c *Config) { c.CertFile, c.KeyFile = good, goodKey }).accepted(t)
		require.Equal(t, 1, served)
		other, otherKey := certificate(foreign, x509.Certificate{})
		old, oldKey := certificate(ours, x509.Certificate{NotBefore: now.Add(-2 * time.Hour), NotAfter: now.Add(-time.Hour)})
		for name, tc := range map[string]struct{ cert, key, want string }{
			"none":    {"", "", "ORDERPOST_API_TLS_CERT_FILE"},
			"foreign": {other, otherKey, "the server does not trust the authority"},
			"expired": {old, oldKey, "has expired: renew it"},
		} {
			x, j := w.client(t, url, func(c *Config) { c.CertFile, c.KeyFile = tc.cert, tc.key }).try(t)
			require.Equal(t, PhaseConnect, x.Phase, "%s: %v", name, x.Err)
			require.Equal(t, "TLS handshake failed", x.Reason(), name)
			require.Contains(t, x.Detail(), tc.want, name)
			require.Equal(t, order.Retry, j.Verdict, name)
		}
		require.Equal(t, 1, served)
	}
	_, err = New(Config{Orders: &url.URL{Scheme: "https", Host: "a"}, CertFile: "nowhere", KeyFile: "nowhere"})
	require.ErrorContains(t, err, "ORDERPOST_API_TLS_CERT_FILE: ")
}

func TestTheSecondHandshakeResumesTheSession(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		w := &way{secure: true, version: version}
		resumed := make(chan bool, 2)
		s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
			s.read(r)
			resumed <- conn.(*tls.Conn).ConnectionState().DidResume
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n{\"code\":0}")
		})
		c := w.client(t, s.url(), nil)
		c.accepted(t)
		require.False(t, <-resumed)
		c.accepted(t)
		require.True(t, <-resumed)
	}
}

func TestAHandshakeIsBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := (&way{}).raw(t, func(_ *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
		r.ReadByte()
		cancel()
		io.Copy(io.Discard, r)
	})
	x := (&way{secure: true}).client(t, "https://"+s.ln.Addr().String(), nil).Post(ctx, tiny)
	require.Equal(t, PhaseConnect, x.Phase)
	require.Equal(t, "no connection: interrupted", x.Reason())
}

func TestOtherWordsOfAHandshake(t *testing.T) {
	require.Equal(t, "something else", explain("a:1", "a", errors.New("something else")).detail)
	require.Contains(t, explain("a:1", "a", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.TooManyIntermediates}}).detail, "intermediate")
	require.Equal(t, "a.example, b.example, c.example, …", namesOf(&x509.Certificate{DNSNames: []string{"a.example", "b.example", "c.example", "d.example"}}))
	require.Equal(t, "no name at all", namesOf(&x509.Certificate{}))
}
