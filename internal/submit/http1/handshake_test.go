package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
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

// The server wants a certificate: in TLS 1.3 the client hears of it after its
// handshake, when it may have sent the order.
func TestServerThatWantsACertificate(t *testing.T) {
	w := &way{secure: true}
	s := (&way{}).raw(t, func(_ *rawServer, _ int, conn net.Conn, _ *bufio.Reader) {
		conf := w.serverTLS()
		conf.ClientAuth = tls.RequireAnyClientCert
		tls.Server(conn, conf).Handshake()
		io.Copy(io.Discard, conn) // until the client hangs up
	})
	x, _ := w.client(t, "https://"+s.ln.Addr().String(), nil).try(t)
	require.ErrorContains(t, x.Err, "certificate required")
	require.Equal(t, ": the server wants a certificate of the client, and there is no setting for one", x.Detail())
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
	require.Equal(t, "something else", explain("a:1", "a", errors.New("something else")).words)
	require.Contains(t, explain("a:1", "a", &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.TooManyIntermediates}}).words, "intermediate")
	require.Equal(t, "a.example, b.example, c.example, …", namesOf(&x509.Certificate{DNSNames: []string{"a.example", "b.example", "c.example", "d.example"}}))
	require.Equal(t, "no name at all", namesOf(&x509.Certificate{}))
}
