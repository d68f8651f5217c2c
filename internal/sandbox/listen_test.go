package sandbox

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// listen starts a server on sockets of its own.
func listen(t *testing.T, change func(*Config)) *api {
	t.Helper()
	cfg := Config{Keys: map[string]string{testKey: testSecret}, Logger: zerolog.Nop()}
	if change != nil {
		change(&cfg)
	}
	server, err := New(cfg)
	require.NoError(t, err)
	a := &api{t: t, server: server, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	a.url, err = server.Start("127.0.0.1:0")
	require.NoError(t, err)
	a.stamp.Store(server.startedAt.UnixMilli())
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return a
}

func TestStartAndClose(t *testing.T) {
	a := listen(t, nil)
	require.Equal(t, 200, a.post("A-1").status)
	_, err := a.server.Start("127.0.0.1:0")
	require.ErrorContains(t, err, "started before")
	require.NoError(t, a.server.Close())
	require.NoError(t, a.server.Close())
	a.set(func(s *Settings) { s.Latency = time.Millisecond }) // must not open it again
	_, err = a.do(a.request(a.order("A-2")))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Equal(t, 1, a.server.Created("A-1"), "the ledger outlives the sockets")
}

// Over TLS everything is as in clear, and only its own authority vouches for it.
func TestTLS(t *testing.T) {
	a := listen(t, func(c *Config) {
		c.TLS, c.Hosts, c.AdminAddr = true, []string{"sandbox.test", "192.0.2.1"}, "127.0.0.1:0"
	})
	require.True(t, strings.HasPrefix(a.url, "https://127.0.0.1:"))
	_, err := a.do(a.request(a.order("A-1")))
	require.ErrorContains(t, err, "unknown authority")

	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(a.server.CA()))
	a.client.Transport = &http.Transport{DisableKeepAlives: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}
	require.Equal(t, 200, a.post("A-1").status)
	a.set(func(s *Settings) { s.Faults.DropBefore = 1 })
	_, err = a.do(a.request(a.order("A-2")))
	require.Error(t, err)
	a.set(func(s *Settings) { s.Faults.DropBefore, s.Down = 0, RefuseAll })
	_, err = a.do(a.request(a.order("A-3")))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	a.set(func(s *Settings) { s.Down = Up })
	require.Equal(t, 200, a.post("A-3").status, "the same certificate again")

	for _, host := range []string{"localhost", "127.0.0.1", "::1", "sandbox.test", "192.0.2.1"} {
		require.NoError(t, a.server.listening.identity.certificate.Leaf.VerifyHostname(host))
	}
	admin := &api{t: t, server: a.server, client: http.DefaultClient, url: "http://" + a.server.listening.admin.listener.Addr().String()}
	require.Equal(t, 200, admin.admin("GET", "ledger", "").status, "in clear, on loopback")
	http.DefaultClient.CloseIdleConnections()
	require.Nil(t, listen(t, nil).server.CA())
}

func TestCloseBeforeStart(t *testing.T) {
	server, err := New(Config{Keys: map[string]string{testKey: testSecret}})
	require.NoError(t, err)
	require.NoError(t, server.Close())
	_, err = server.Start("127.0.0.1:0")
	require.ErrorContains(t, err, "closed")
}

func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for name, c := range map[string]struct{ addr, admin string }{
		"api":   {taken.Addr().String(), ""},
		"admin": {"127.0.0.1:0", taken.Addr().String()},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := New(Config{Keys: map[string]string{testKey: testSecret}, AdminAddr: c.admin})
			require.NoError(t, err)
			defer server.Close()
			_, err = server.Start(c.addr)
			require.ErrorIs(t, err, syscall.EADDRINUSE)
		})
	}
}

func TestOutages(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	admin := free.Addr().String()
	require.NoError(t, free.Close())
	a := listen(t, func(c *Config) { c.AdminAddr = admin })
	viaAdmin := &api{t: t, server: a.server, client: a.client, url: "http://" + admin}

	require.Equal(t, 200, viaAdmin.admin("PUT", "config", `{"down":"drop"}`).status)
	_, err = a.do(a.request(a.order("A-1")))
	require.Error(t, err, "end of file or reset: the server does not even read the body")
	require.NotErrorIs(t, err, syscall.ECONNREFUSED)
	require.Contains(t, a.admin("GET", "ledger", "").body, `"down":1`, "the admin endpoints stay")

	require.Equal(t, 200, viaAdmin.admin("PUT", "config", `{"down":"refuse"}`).status)
	_, err = a.do(a.request(a.order("A-1")))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.Contains(t, viaAdmin.admin("GET", "config", "").body, `"down":"refuse"`)

	require.Equal(t, 200, viaAdmin.admin("PUT", "config", `{"down":"up"}`).status)
	require.Equal(t, 200, a.post("A-1").status, "at the same address as before")
	require.EqualValues(t, 1, a.server.Ledger().Answers["down"], "a refused connection is no request")
}

func TestStartedDown(t *testing.T) {
	a := listen(t, func(c *Config) { c.Down = RefuseAll })
	_, err := a.do(a.request(a.order("A-1")))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	a.set(func(s *Settings) { s.Down = Up })
	require.Equal(t, 200, a.post("A-1").status)
}

func TestConfigErrorsAreNamedAtOnce(t *testing.T) {
	_, err := New(Config{
		Keys:    map[string]string{"a": "", "with space": "s"},
		MaxBody: -1,
		Trail:   -1,
		Settings: Settings{
			Window: -1, Latency: -1, Rate: -1, Burst: -1, Manner: 9, Duplicates: 9, Down: 9,
			Faults: Faults{Slow: 2, Unavailable: -1, MaxPerOrder: -1, GarbageForm: 99, RetryAfterForm: 9},
		},
	})
	for _, name := range []string{"secret", "does not fit a header", "max-body", "trail", "window", "latency", "rate", "burst",
		"manner", "duplicates", "down", "fault-slow", "fault-503", "max-faults-per-order", "garbage-form", "retry-after-form"} {
		require.ErrorContains(t, err, name)
	}
	_, err = New(Config{})
	require.ErrorContains(t, err, "at least one key pair")
	eleven := make(map[string]string)
	for _, key := range strings.Split("a b c d e f g h i j k", " ") {
		eleven[key] = "s"
	}
	_, err = New(Config{Keys: eleven})
	require.ErrorContains(t, err, "11 key pairs")
}
