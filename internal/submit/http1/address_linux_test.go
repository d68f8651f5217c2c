package http1

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers every question for an IPv4 address with the present one.
func nameServer(t *testing.T, address *atomic.Pointer[[4]byte]) *net.Resolver {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 1024)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil {
				continue
			}
			m.Response, m.Authoritative, m.Additionals = true, true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 0}, Body: &dnsmessage.AResource{A: *address.Load()}}}
			}
			reply, _ := m.Pack()
			conn.WriteTo(reply, from) //nolint:errcheck // the resolver asks again
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// serveAt is an API at an address that counts its orders.
func serveAt(t *testing.T, addr string) (ln net.Listener, orders *atomic.Int64) {
	ln, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	orders = &atomic.Int64{}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders.Add(1)
		w.Write([]byte(`{"code":0}`)) //nolint:errcheck // the client is gone
	})}
	go srv.Serve(ln) //nolint:errcheck // closed by the test
	t.Cleanup(func() { srv.Close() })
	return ln, orders
}

// When the API's name gets another address, a busy worker goes there within the age of
// its connections, although the former server still answers. No order is lost on the way.
func TestABusyWorkerFollowsAnAddressThatChanges(t *testing.T) {
	var address atomic.Pointer[[4]byte]
	address.Store(&[4]byte{127, 0, 0, 1})
	resolver := nameServer(t, &address)
	former, before := serveAt(t, "127.0.0.1:0")
	port := former.Addr().(*net.TCPAddr).Port
	_, after := serveAt(t, fmt.Sprint("127.0.0.2:", port))

	c := (&way{}).client(t, fmt.Sprintf("http://api.test:%d", port), nil)
	c.dialer.net = (&net.Dialer{Timeout: 5 * time.Second, Resolver: resolver}).DialContext
	post := func() { c.accepted(t) }
	post()
	post()
	require.EqualValues(t, 2, before.Load())

	address.Store(&[4]byte{127, 0, 0, 2})
	post()
	require.EqualValues(t, 3, before.Load(), "the connection is kept")
	c.pool.age = 0 // it has become old
	post()
	require.EqualValues(t, 4, before.Load(), "the request on its way ends there")
	post()
	require.EqualValues(t, 1, after.Load())
	require.EqualValues(t, 4, before.Load())
}
