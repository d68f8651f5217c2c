package http1

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// resolverFor returns a resolver that knows 127.0.0.1 and ::1 for every name, and never answers
// questions of the given types.
func resolverFor(t *testing.T, ignored ...dnsmessage.Type) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	silent := make(map[dnsmessage.Type]bool)
	for _, typ := range ignored {
		silent[typ] = true
	}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || silent[m.Questions[0].Type] {
				continue
			}
			m.Response, m.Additionals = true, nil
			header := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 60}
			switch m.Questions[0].Type {
			case dnsmessage.TypeA:
				m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
			case dnsmessage.TypeAAAA:
				m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(net.IPv6loopback)}}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(answer, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// TestAResolverThatIgnoresAFamily: the API is reached within the time that one attempt has for it.
func TestAResolverThatIgnoresAFamily(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		listen  string
		ignored []dnsmessage.Type
	}{
		"AAAA":    {"127.0.0.1:0", []dnsmessage.Type{dnsmessage.TypeAAAA}},
		"A":       {"[::1]:0", []dnsmessage.Type{dnsmessage.TypeA}},
		"neither": {"127.0.0.1:0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, err := net.Listen("tcp", c.listen)
			require.NoError(t, err)
			t.Cleanup(func() { _ = api.Close() })
			_, port, err := net.SplitHostPort(api.Addr().String())
			require.NoError(t, err)
			d := &dialer{net: (&net.Dialer{Timeout: 4 * time.Second, Resolver: resolverFor(t, c.ignored...)}).DialContext}
			conn, err := d.reach(t.Context(), net.JoinHostPort("api.test", port))
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		})
	}
	t.Run("both", func(t *testing.T) {
		t.Parallel()
		d := &dialer{net: (&net.Dialer{Timeout: time.Second, Resolver: resolverFor(t, dnsmessage.TypeA, dnsmessage.TypeAAAA)}).DialContext}
		_, err := d.reach(t.Context(), "api.test:80")
		var dns *net.DNSError
		require.ErrorAs(t, err, &dns)
		require.True(t, dns.Timeout())
	})
}
