package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
	"orderpost/internal/testing/patient"
)

// way is a way to the API. Every test of the client goes all of them.
type way struct {
	name    string
	secure  bool   // https
	version uint16 // of TLS; 0: the newest
	proxy   string // scheme of the proxy; "" = none
}

var everyWay = []way{
	{name: "clear"},
	{name: "TLS", secure: true},
	{name: "TLS 1.2", secure: true, version: tls.VersionTLS12},
	{name: "clear by a proxy", proxy: "http"},
	{name: "TLS by a proxy", secure: true, proxy: "http"},
	{name: "TLS by a TLS proxy", secure: true, proxy: "https"},
	{name: "TLS by a SOCKS proxy", secure: true, proxy: "socks5"},
}

func eachWay(t *testing.T, test func(t *testing.T, w *way)) {
	for _, w := range everyWay {
		t.Run(w.name, func(t *testing.T) { test(t, &w) })
	}
}

// eachScheme is for what does not depend on the rest of the way.
func eachScheme(t *testing.T, test func(t *testing.T, w *way)) {
	for _, i := range []int{0, 1} {
		t.Run(everyWay[i].name, func(t *testing.T) { test(t, &everyWay[i]) })
	}
}

// testCertificate is for 127.0.0.1 and example.com.
var testCertificate = sync.OnceValue(func() *httptest.Server {
	srv := httptest.NewTLSServer(http.NotFoundHandler())
	srv.Close()
	return srv
})

// caFile writes the authority that the test servers' certificate is from.
func caFile(t testing.TB) string {
	file := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: testCertificate().Certificate().Raw})
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return file
}

func (w *way) serverTLS() *tls.Config {
	return &tls.Config{Certificates: testCertificate().TLS.Certificates, MaxVersion: w.version}
}

// url is a server's, as seen from the client: a proxy is asked for names alone,
// never for loopback.
func (w *way) url(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	host, scheme := "127.0.0.1:", "http://"
	if w.proxy != "" {
		host = "example.com:"
	}
	if w.secure {
		scheme = "https://"
	}
	return scheme + host + port
}

// rawServer hands each connection to a function, with a counter of requests
// that were read to their end.
type rawServer struct {
	way      *way
	ln       net.Listener
	requests atomic.Int32
	wg       sync.WaitGroup
}

func (w *way) raw(t testing.TB, serve func(s *rawServer, n int, conn net.Conn, r *bufio.Reader)) *rawServer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s, conf := &rawServer{way: w, ln: ln}, w.serverTLS()
	s.wg.Go(func() {
		for n := 1; ; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			if w.secure {
				conn = tls.Server(conn, conf)
			}
			s.wg.Go(func() {
				defer conn.Close()
				if c, ok := conn.(*tls.Conn); !ok || c.Handshake() == nil {
					serve(s, n, conn, bufio.NewReader(conn))
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); s.wg.Wait() })
	return s
}

func (s *rawServer) url() string { return s.way.url(s.ln.Addr().String()) }

// read takes one request; false at the connection's end.
func (s *rawServer) read(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return false
	}
	s.requests.Add(1)
	return true
}

// lingerless has a connection end by a reset.
func lingerless(conn net.Conn) {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	conn.(*net.TCPConn).SetLinger(0) //nolint:errcheck // it is open
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"code\":0}"

// answering answers each request with the same.
func answering(text string) func(*rawServer, int, net.Conn, *bufio.Reader) {
	return func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
		for s.read(r) {
			io.WriteString(conn, text)
		}
	}
}

// serve starts an HTTP server, and gives its URL.
func (w *way) serve(t testing.TB, h http.HandlerFunc) string {
	srv := httptest.NewUnstartedServer(h)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	if w.secure {
		srv.TLS = w.serverTLS()
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return w.url(srv.Listener.Addr().String())
}

// testConfig is what the programs have, with a shorter time for a request.
func testConfig(base string) Config {
	at := func(path string) *url.URL {
		u, err := url.Parse(base + path)
		if err != nil {
			panic(err)
		}
		return u
	}
	return Config{Orders: at("/v1/order/create"), Account: at("/v1/account"),
		ConnectTimeout: 5 * time.Second, TLSTimeout: 5 * time.Second, RequestTimeout: 5 * time.Second, IdleTimeout: 4 * time.Second}
}

// client is one on real sockets that goes this way.
func (w *way) client(t testing.TB, base string, change func(*Config)) *Client {
	cfg := testConfig(base)
	if w.secure {
		cfg.CAFile = caFile(t)
	}
	if w.proxy != "" {
		p := startProxy(t, w.proxy)
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
			t.(*testing.T).Setenv(name, p.url)
		}
	}
	if change != nil {
		change(&cfg)
	}
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// onDial has each new connection changed before it is used.
func (c *Client) onDial(change func(net.Conn) net.Conn) {
	dial := c.dialer.net
	c.dialer.net = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return change(conn), nil
	}
}

// rawOf lets a connection be looked at through a wrapper.
func rawOf(conn net.Conn) (syscall.RawConn, error) { return conn.(syscall.Conn).SyscallConn() }

// try posts the tiny order, and says what the built-in verdicts make of it.
func (c *Client) try(t testing.TB) (Exchange, answer.Judgement) {
	t.Helper()
	x := c.Post(context.Background(), tiny)
	if x.Answer.Status == 0 {
		return x, answer.NoAnswer(x.Phase.MaySent(), x.Reason(), "")
	}
	var judge answer.Judge
	return x, judge.Judgement(&x.Answer, 1)
}

const keyA = "AKtest-first-key-000A"

var tiny = Order{No: "n", Body: []byte(`{"order_no":"n","timeout":5,"timestamp":1}`), Key: keyA, Signature: "abc"}

// accepted makes a request that must succeed.
func (c *Client) accepted(t testing.TB) Exchange {
	t.Helper()
	x, j := c.try(t)
	require.Equal(t, order.Accepted, j.Verdict, "%s: %v", j.Reason, x.Err)
	return x
}

var errGone = errors.New("gone")

// brokenConn fails writes.
type brokenConn struct {
	net.Conn
	broken atomic.Bool
	after  atomic.Int32 // bytes that still pass
}

func (b *brokenConn) SyscallConn() (syscall.RawConn, error) { return rawOf(b.Conn) }

func (b *brokenConn) Write(p []byte) (int, error) {
	if n := int(b.after.Swap(0)); n > 0 {
		b.broken.Store(true)
		n, _ = b.Conn.Write(p[:n])
		return n, io.ErrShortWrite
	}
	if b.broken.Load() {
		return 0, errGone
	}
	return b.Conn.Write(p)
}

type tallyConn struct {
	net.Conn
	writes *atomic.Int32
}

func (c tallyConn) SyscallConn() (syscall.RawConn, error) { return rawOf(c.Conn) }

func (c tallyConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func TestMain(m *testing.M) { patient.Main(m) }
