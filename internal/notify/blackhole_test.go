package notify

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/platform/secret"
	"orderpost/internal/testing/patient"
)

// TestAConnectionThatSwallows what it is sent is given up, whichever protocol it has: the attempts
// after that have another one.
func TestAConnectionThatSwallows(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{false, true} {
		var proto atomic.Value
		receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			proto.Store(r.Proto)
			w.WriteHeader(http.StatusNoContent)
		}))
		receiver.EnableHTTP2 = two
		receiver.StartTLS()
		t.Cleanup(receiver.Close)
		relay := patient.NewRelay(t, receiver.Listener.Addr().String())

		cfg := Config{URL: "https://" + relay.Addr().String(), Secret: secret.Text(NewSecret())}
		secrets, err := newSecrets(cfg)
		require.NoError(t, err)
		c := newClient(cfg, secrets, func(error) {})
		t.Cleanup(c.close)
		roots := x509.NewCertPool()
		roots.AddCert(receiver.Certificate())
		c.transport.TLSClientConfig.RootCAs = roots
		c.transport.HTTP2.SendPingTimeout, c.transport.HTTP2.PingTimeout = 100*time.Millisecond, 100*time.Millisecond
		c.timeout = 5 * time.Second
		post := func() int { return c.post(t.Context(), &message{id: "1", body: []byte("{}")}).status }
		require.Equal(t, http.StatusNoContent, post())
		require.Equal(t, map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[two], proto.Load())
		relay.Swallow()
		require.Zero(t, post(), "the connection swallows it")
		require.Equal(t, http.StatusNoContent, post(), "it has another connection")
	}
}

// TestAReceiverThatMoves: its name has another address, and the server behind the former one
// answers on. Whichever protocol a connection has, it is not used for ever.
func TestAReceiverThatMoves(t *testing.T) {
	t.Parallel()
	for _, two := range []bool{false, true} {
		serve := func(status int) *httptest.Server {
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }))
			s.EnableHTTP2 = two
			s.StartTLS()
			t.Cleanup(s.Close)
			return s
		}
		former, now := serve(http.StatusServiceUnavailable), serve(http.StatusNoContent)
		cfg := Config{URL: "https://example.com", Secret: secret.Text(NewSecret())} // a name of their certificate
		secrets, err := newSecrets(cfg)
		require.NoError(t, err)
		c := newClient(cfg, secrets, func(error) {})
		t.Cleanup(c.close)
		roots := x509.NewCertPool()
		roots.AddCert(former.Certificate())
		roots.AddCert(now.Certificate())
		c.transport.TLSClientConfig.RootCAs = roots
		var address atomic.Value
		address.Store(former.Listener.Addr().String())
		c.transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address.Load().(string))
		}
		post := func() int { return c.post(t.Context(), &message{id: "1", body: []byte("{}")}).status }
		require.Equal(t, http.StatusServiceUnavailable, post())
		address.Store(now.Listener.Addr().String())
		require.Equal(t, http.StatusServiceUnavailable, post(), "on the connection that there is")
		c.longest = time.Nanosecond
		require.Equal(t, http.StatusNoContent, post())
	}
}
