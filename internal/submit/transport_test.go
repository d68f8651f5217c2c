package submit

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
)

// rawServer hands each connection to a function, with a counter of requests
// that were read to their end.
type rawServer struct {
	t        *testing.T
	ln       net.Listener
	requests atomic.Int32
	wg       sync.WaitGroup
}

func newRawServer(t *testing.T, serve func(s *rawServer, n int, conn net.Conn, r *bufio.Reader)) *rawServer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &rawServer{t: t, ln: ln}
	s.wg.Go(func() {
		for n := 1; ; n++ {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() {
				defer conn.Close()
				serve(s, n, conn, bufio.NewReader(conn))
			})
		}
	})
	t.Cleanup(func() { ln.Close(); s.wg.Wait() })
	return s
}

func (s *rawServer) url() string { return "http://" + s.ln.Addr().String() }

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

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"code\":0}"

type clientMaker func(t *testing.T, base string, change func(*Config)) *client

// eachClient runs a test with each of the clients that post orders.
func eachClient(t *testing.T, test func(t *testing.T, attemptClient clientMaker)) {
	for _, kind := range []struct {
		name   string
		client HTTPClient
		many   int64 // of fastClient
	}{{"net", HTTPNet, 0}, {"fast", HTTPFast, manyWaiting}, {"fast, many waiting", HTTPFast, 1}} {
		t.Run(kind.name, func(t *testing.T) {
			test(t, func(t *testing.T, base string, change func(*Config)) *client {
				c := attemptClient(t, base, func(c *Config) {
					c.HTTPClient = kind.client
					if change != nil {
						change(c)
					}
				})
				if c.fast != nil {
					c.fast.many = kind.many
				}
				return c
			})
		})
	}
}

// attemptClient is a client on real sockets, without retries.
func attemptClient(t *testing.T, base string, change func(*Config)) *client {
	cfg := DefaultConfig(base)
	cfg.RequestTimeout, cfg.HeaderTimeout = 5*time.Second, 5*time.Second
	if change != nil {
		change(&cfg)
	}
	tr, err := newTransport(cfg)
	require.NoError(t, err)
	t.Cleanup(tr.CloseIdleConnections)
	c, err := newClient(tr, base, "test", cfg.RequestTimeout)
	require.NoError(t, err)
	cfg.UserAgent = "test"
	c.fast, err = newFastClient(cfg, c.orders)
	require.NoError(t, err)
	if c.fast != nil {
		t.Cleanup(c.fast.close)
	}
	return c
}

// onDial has each new connection changed before it is used.
func (c *client) onDial(change func(net.Conn) net.Conn) {
	wrap := func(conn net.Conn, err error) (net.Conn, error) {
		if err != nil {
			return nil, err
		}
		return &countedConn{Conn: change(conn.(*countedConn).Conn)}, nil
	}
	if c.fast != nil {
		dial := c.fast.host.DialTimeout
		c.fast.host.DialTimeout = func(addr string, within time.Duration) (net.Conn, error) { return wrap(dial(addr, within)) }
		return
	}
	tr := c.transport.(*http.Transport)
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return wrap(dial(ctx, network, addr))
	}
}

// rawOf lets a connection be looked at through a wrapper.
func rawOf(conn net.Conn) (syscall.RawConn, error) { return conn.(syscall.Conn).SyscallConn() }

func (c *client) try(t *testing.T) (exchange, answer.Judgement) {
	t.Helper()
	x, _ := c.post(context.Background(), "n", []byte(`{"order_no":"n","timeout":5,"timestamp":1}`), keyA, "abc", "")
	var rules *answer.Rules
	if x.answer.Status == 0 {
		return x, answer.NoAnswer(x.phase.maySent(), transportReason(x.phase, x.err), "")
	}
	return x, rules.Judge(&x.answer, 1)
}

func TestRefusedConnection(t *testing.T) { eachClient(t, testRefusedConnection) }

func testRefusedConnection(t *testing.T, attemptClient clientMaker) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln.Close()
	x, j := attemptClient(t, "http://"+ln.Addr().String(), nil).try(t)
	require.Equal(t, PhaseConnect, x.phase)
	require.Equal(t, order.Retry, j.Verdict)
	require.Equal(t, "no connection: refused", j.Reason)
}

func TestNameThatIsNotResolved(t *testing.T) {
	err := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "api.invalid", IsNotFound: true}}
	require.Equal(t, "name not resolved", transportReason(PhaseConnect, err))
	require.Equal(t, order.Retry, answer.NoAnswer(PhaseConnect.maySent(), "", "").Verdict)
}

func TestUntrustedCertificate(t *testing.T) { eachClient(t, testUntrustedCertificate) }

func testUntrustedCertificate(t *testing.T, attemptClient clientMaker) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.Config.ErrorLog = nil
	srv.Config.ErrorLog = discardLog
	srv.StartTLS()
	defer srv.Close()
	x, j := attemptClient(t, srv.URL, nil).try(t)
	require.Equal(t, PhaseConnect, x.phase)
	require.Equal(t, order.Retry, j.Verdict)
	require.Equal(t, "certificate not trusted", j.Reason)
}

func TestHandshakeWithSomethingElse(t *testing.T) { eachClient(t, testHandshakeWithSomethingElse) }

func testHandshakeWithSomethingElse(t *testing.T, attemptClient clientMaker) {
	s := newRawServer(t, func(_ *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
		r.ReadByte()
		io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	x, j := attemptClient(t, "https://"+s.ln.Addr().String(), nil).try(t)
	require.Equal(t, PhaseConnect, x.phase)
	require.Equal(t, order.Retry, j.Verdict)
	require.Equal(t, "TLS handshake failed", j.Reason)
}

func TestOldTLSIsRefused(t *testing.T) { eachClient(t, testOldTLSIsRefused) }

func testOldTLSIsRefused(t *testing.T, attemptClient clientMaker) {
	srv := httptest.NewUnstartedServer(http.NotFoundHandler())
	srv.TLS = &tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	srv.Config.ErrorLog = discardLog
	srv.StartTLS()
	defer srv.Close()
	x, j := attemptClient(t, srv.URL, func(c *Config) { c.CAFile = caFile(t, srv) }).try(t)
	require.Equal(t, PhaseConnect, x.phase)
	require.Equal(t, order.Retry, j.Verdict)
}

// caFile writes a test server's certificate.
func caFile(t *testing.T, srv *httptest.Server) string {
	file := filepath.Join(t.TempDir(), "ca.pem")
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return file
}

// The server closes a kept connection between two requests. Either the client
// has noticed (it dials anew), or its write fails or is lost. Whatever it was:
// the order is sent at most once, and "retry" is said only if it was not sent.
func TestStaleConnection(t *testing.T) { eachClient(t, testStaleConnection) }

func testStaleConnection(t *testing.T, attemptClient clientMaker) {
	for range 50 {
		closed := make(chan struct{})
		s := newRawServer(t, func(s *rawServer, n int, conn net.Conn, r *bufio.Reader) {
			if n > 1 { // another connection works
				for s.read(r) {
					io.WriteString(conn, okAnswer)
				}
				return
			}
			s.read(r)
			io.WriteString(conn, okAnswer)
			conn.Close()
			close(closed)
		})
		c := attemptClient(t, s.url(), nil)
		_, j := c.try(t)
		require.Equal(t, order.Accepted, j.Verdict)
		<-closed
		before := s.requests.Load()
		x, j := c.try(t)
		sent := s.requests.Load() - before
		switch j.Verdict {
		case order.Accepted:
			require.EqualValues(t, 1, sent)
		case order.Retry:
			require.EqualValues(t, 0, sent, "said to be without effect: %v", x.err)
		case order.Unsure:
			require.EqualValues(t, 0, sent)
			require.True(t, x.reused)
		default:
			t.Fatalf("verdict %s", j.Verdict)
		}
		c.transport.(*http.Transport).CloseIdleConnections()
		if c.fast != nil {
			c.fast.host.CloseIdleConnections()
		}
	}
}

// A kept connection that is reset while it is idle: nothing is written, and
// the counter proves it.
func TestNothingWrittenOnADeadConnection(t *testing.T) {
	eachClient(t, testNothingWrittenOnADeadConnection)
}

func testNothingWrittenOnADeadConnection(t *testing.T, attemptClient clientMaker) {
	s := newRawServer(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
		for s.read(r) {
			io.WriteString(conn, okAnswer)
		}
	})
	c := attemptClient(t, s.url(), nil)
	var last *brokenConn
	c.onDial(func(conn net.Conn) net.Conn {
		last = &brokenConn{Conn: conn}
		return last
	})
	_, j := c.try(t)
	require.Equal(t, order.Accepted, j.Verdict)
	last.broken.Store(true) // every write fails from now on
	x, j := c.try(t)
	require.Equal(t, PhaseSend, x.phase)
	require.Equal(t, order.Retry, j.Verdict)
	require.True(t, x.reused)
	require.EqualValues(t, 1, s.requests.Load(), "net/http did not repeat it")

	last = nil
	_, j = c.try(t)
	require.Equal(t, order.Accepted, j.Verdict)
	last.after.Store(100) // some bytes leave, then it breaks
	x, j = c.try(t)
	require.Equal(t, PhaseSent, x.phase, "%+v %v", x.phase, x.err)
	require.Equal(t, order.Unsure, j.Verdict)
	require.EqualValues(t, 2, s.requests.Load())
}

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
		return 0, net.ErrClosed
	}
	return b.Conn.Write(p)
}

func TestFailuresAfterTheRequest(t *testing.T) { eachClient(t, testFailuresAfterTheRequest) }

func testFailuresAfterTheRequest(t *testing.T, attemptClient clientMaker) {
	for name, c := range map[string]struct {
		answer string // then the connection ends
		reset  bool   // by a reset
		phase  Phase
		want   order.Verdict
	}{
		"dropped before the headers": {"", false, PhaseSent, order.Unsure},
		"reset before the headers":   {"", true, PhaseSent, order.Unsure},
		"half a status line":         {"HTTP/1.1 2", false, PhaseSent, order.Unsure},
		"half the headers":           {"HTTP/1.1 200 OK\r\nContent-Le", false, PhaseSent, order.Unsure},
		"no HTTP at all":             {"220 mail.example ESMTP\r\n", false, PhaseSent, order.Unsure},
		"half the body of a 200":     {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"co", false, PhaseCut, order.Unsure},
		"half a chunk":               {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{\"co", false, PhaseCut, order.Unsure},
		"bad chunk":                  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, PhaseCut, order.Unsure},
		"half the body of a 422":     {"HTTP/1.1 422 X\r\nContent-Length: 10\r\n\r\n{\"co", false, PhaseCut, order.Rejected},
		"half the body of a 429":     {"HTTP/1.1 429 X\r\nContent-Length: 10\r\n\r\n{\"co", true, PhaseCut, order.Retry},
		"half the body of a 503":     {"HTTP/1.1 503 X\r\nContent-Length: 10\r\n\r\n{\"co", false, PhaseCut, order.Unsure},
		"whole, until the end":       {"HTTP/1.1 200 OK\r\n\r\n{\"code\":0}", false, PhaseDone, order.Accepted},
		"switching protocols":        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", false, PhaseDone, order.Unsure},
		"after 100 and 103":          {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + okAnswer, false, PhaseDone, order.Accepted},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRawServer(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
				if !s.read(r) {
					return
				}
				io.WriteString(conn, c.answer)
				if c.reset {
					conn.(*net.TCPConn).SetLinger(0)
				}
			})
			x, j := attemptClient(t, s.url(), nil).try(t)
			if c.reset && x.phase == PhaseSent { // a reset may overtake what was written before it
				c.phase, c.want = PhaseSent, order.Unsure
			}
			require.Equal(t, c.phase, x.phase, "%v", x.err)
			require.Equal(t, c.want, j.Verdict, j.Reason)
			require.EqualValues(t, 1, s.requests.Load(), "never sent again by net/http")
		})
	}
}

// The same on a kept connection, where net/http is most tempted to repeat.
func TestDropOnAKeptConnectionIsNotRepeated(t *testing.T) {
	eachClient(t, testDropOnAKeptConnectionIsNotRepeated)
}

func testDropOnAKeptConnectionIsNotRepeated(t *testing.T, attemptClient clientMaker) {
	s := newRawServer(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
		s.read(r)
		io.WriteString(conn, okAnswer)
		s.read(r) // and no answer
	})
	c := attemptClient(t, s.url(), nil)
	c.try(t)
	x, j := c.try(t)
	require.True(t, x.reused)
	require.Equal(t, PhaseSent, x.phase)
	require.Equal(t, order.Unsure, j.Verdict)
	require.EqualValues(t, 2, s.requests.Load())
}

func TestServerThatClosesBeforeReading(t *testing.T) {
	eachClient(t, testServerThatClosesBeforeReading)
}

func testServerThatClosesBeforeReading(t *testing.T, attemptClient clientMaker) {
	s := newRawServer(t, func(_ *rawServer, _ int, conn net.Conn, _ *bufio.Reader) {
		conn.(*net.TCPConn).SetLinger(0)
	})
	_, j := attemptClient(t, s.url(), nil).try(t)
	require.Contains(t, []order.Verdict{order.Retry, order.Unsure}, j.Verdict, "as far as can be known")
}

func TestHostileAnswers(t *testing.T) { eachClient(t, testHostileAnswers) }

func testHostileAnswers(t *testing.T, attemptClient clientMaker) {
	bomb := gzipBomb(t)
	for name, c := range map[string]struct {
		answer func(w io.Writer) error
		phase  Phase
	}{
		"100 MB": {func(w io.Writer) error {
			io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
			return endless(w, []byte(strings.Repeat("{", 1<<16)), 1600)
		}, PhaseCut},
		"endless": {func(w io.Writer) error {
			io.WriteString(w, "HTTP/1.1 200 OK\r\n\r\n")
			return endless(w, make([]byte, 1<<16), 1<<30)
		}, PhaseCut},
		"endless headers": {func(w io.Writer) error {
			io.WriteString(w, "HTTP/1.1 200 OK\r\n")
			return endless(w, []byte("X-A: "+strings.Repeat("b", 1000)+"\r\n"), 1<<30)
		}, PhaseSent},
		"endless status line": {func(w io.Writer) error {
			return endless(w, []byte("HTTP/1.1 200 OKOKOKOKOKOKOKOKOK"), 1<<30)
		}, PhaseSent},
		"endless 1xx": {func(w io.Writer) error {
			return endless(w, []byte("HTTP/1.1 103 Early Hints\r\nLink: <"+strings.Repeat("x", 5000)+">\r\n\r\n"), 1<<30)
		}, PhaseSent},
		"gzip bomb": {func(w io.Writer) error {
			fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n", len(bomb))
			_, err := w.Write(bomb)
			return err
		}, PhaseCut},
		"broken gzip": {func(w io.Writer) error {
			_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n{\"code\":0}")
			return err
		}, PhaseCut},
		"other encoding": {func(w io.Writer) error {
			_, err := io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 10\r\n\r\n{\"code\":0}")
			return err
		}, PhaseCut},
		"slow drip": {func(w io.Writer) error {
			io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
			for {
				if _, err := io.WriteString(w, " "); err != nil {
					return err
				}
				<-time.After(10 * time.Millisecond)
			}
		}, PhaseCut},
		"slow headers": {func(w io.Writer) error {
			io.WriteString(w, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(w, "X: y\r\n"); err != nil {
					return err
				}
				<-time.After(10 * time.Millisecond)
			}
		}, PhaseSent},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRawServer(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
				if s.read(r) {
					c.answer(conn) //nolint:errcheck // ends when the client hangs up
				}
			})
			cl := attemptClient(t, s.url(), func(c *Config) { c.RequestTimeout = 500 * time.Millisecond })
			x, j := cl.try(t)
			require.Equal(t, c.phase, x.phase, "%v", x.err)
			require.Equal(t, order.Unsure, j.Verdict)
			require.Empty(t, j.Hold, "a fault of the line, not of the rules")
			require.LessOrEqual(t, len(x.answer.Body), answer.MaxBody)
			require.Less(t, x.ended.Sub(x.sent), 3*time.Second)
		})
	}
}

func endless(w io.Writer, piece []byte, times int) error {
	for range times {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

func gzipBomb(t *testing.T) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	require.NoError(t, endless(z, make([]byte, 1<<20), 16))
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestUnaskedGzipIsRead(t *testing.T) { eachClient(t, testUnaskedGzipIsRead) }

func testUnaskedGzipIsRead(t *testing.T, attemptClient clientMaker) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			w.WriteHeader(400)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, `{"code":0}`)
		z.Close()
	}))
	defer srv.Close()
	_, j := attemptClient(t, srv.URL, nil).try(t)
	require.Equal(t, order.Accepted, j.Verdict)
}

func TestRedirectIsNotFollowed(t *testing.T) { eachClient(t, testRedirectIsNotFollowed) }

func testRedirectIsNotFollowed(t *testing.T, attemptClient clientMaker) {
	var hits atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	x, j := attemptClient(t, srv.URL, nil).try(t)
	require.Equal(t, 307, x.answer.Status)
	require.Equal(t, order.Rejected, j.Verdict)
	require.EqualValues(t, 1, hits.Load())
}

func TestRequestOnTheWire(t *testing.T) { eachClient(t, testRequestOnTheWire) }

func testRequestOnTheWire(t *testing.T, attemptClient clientMaker) {
	got := make(chan *http.Request, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		got <- r
	}))
	defer srv.Close()
	c := attemptClient(t, srv.URL+"/base", nil)
	c.post(context.Background(), "n", []byte(`{"a":1}`), keyA, "5167", "00-trace")
	r := <-got
	body, _ := io.ReadAll(r.Body)
	require.Equal(t, `{"a":1}`, string(body))
	require.Equal(t, "/base/v1/order/create", r.URL.Path)
	require.Equal(t, http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}, "Content-Length": {"7"},
		"User-Agent": {"test"}, "X-Api-Key": {keyA}, "X-Signature": {"5167"}, "Traceparent": {"00-trace"}}, r.Header)
	c.get(context.Background(), keyA)
	r = <-got
	require.Equal(t, "GET", r.Method)
	require.Equal(t, "/base/v1/account", r.URL.Path)
	require.Equal(t, http.Header{"Accept": {"application/json"}, "User-Agent": {"test"}, "X-Api-Key": {keyA}}, r.Header)
}

func TestHTTP2(t *testing.T) {
	var drop atomic.Bool
	var created atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		created.Add(1)
		if drop.Load() {
			panic(http.ErrAbortHandler)
		}
		require.Equal(t, 2, r.ProtoMajor)
		io.WriteString(w, `{"code":0}`)
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = discardLog
	srv.StartTLS()
	defer srv.Close()
	c := attemptClient(t, srv.URL, func(c *Config) { c.CAFile = caFile(t, srv) })
	_, j := c.try(t)
	require.Equal(t, order.Accepted, j.Verdict)
	drop.Store(true)
	x, j := c.try(t)
	require.Equal(t, PhaseSent, x.phase)
	require.Equal(t, order.Unsure, j.Verdict)
	require.EqualValues(t, 2, created.Load(), "not repeated")
}

// HTTP/2 with no stream free: the request waits in the transport, and when its
// time is up nothing of the order has left.
func TestHTTP2RequestThatNeverGotAStream(t *testing.T) {
	release := make(chan struct{})
	var received atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, _ := io.Copy(io.Discard, r.Body); n > 0 && received.Add(1) > 1 {
			<-release
		}
		io.WriteString(w, `{"code":0}`)
	}))
	srv.EnableHTTP2 = true
	srv.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 1, StrictMaxConcurrentRequests: true}
	srv.Config.ErrorLog = discardLog
	srv.StartTLS()
	defer srv.Close()
	c := attemptClient(t, srv.URL, func(c *Config) { c.CAFile, c.RequestTimeout = caFile(t, srv), 300*time.Millisecond })
	c.transport.(*http.Transport).HTTP2 = &http.HTTP2Config{StrictMaxConcurrentRequests: true}
	_, j := c.try(t) // the server's settings are known after it
	require.Equal(t, order.Accepted, j.Verdict)
	var wg sync.WaitGroup
	seen := map[order.Verdict]int{}
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			_, j := c.try(t)
			mu.Lock()
			seen[j.Verdict]++
			mu.Unlock()
		})
	}
	wg.Wait()
	close(release)
	srv.Close()
	require.Equal(t, 4, seen[order.Retry]+seen[order.Unsure], "%v", seen)
	require.Positive(t, seen[order.Retry], "%v", seen)
	require.LessOrEqual(t, int(received.Load())-1, seen[order.Unsure], "whatever the server has seen is in doubt")
}

// On TLS an alert is no request, and a request is one.
func TestTLSCountsRecordsOfRequestsOnly(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	go io.Copy(io.Discard, far) //nolint:errcheck // ends with the pipe
	counted := &countedConn{Conn: near}
	w := &wire{secure: true, conn: counted, got: true, body: &onceBody{data: []byte("x")}}
	_, err := w.body.Read(make([]byte, 1))
	require.NoError(t, err)
	_, err = counted.Write(make([]byte, 24)) // a TLS 1.3 alert
	require.NoError(t, err)
	p, _ := w.end()
	require.Equal(t, PhaseSend, p)
	_, err = counted.Write(make([]byte, 200))
	require.NoError(t, err)
	p, _ = w.end()
	require.Equal(t, PhaseSent, p)
	near.Close()
}

func TestRequestOverTLSIsCounted(t *testing.T) { eachClient(t, testRequestOverTLSIsCounted) }

func testRequestOverTLSIsCounted(t *testing.T, attemptClient clientMaker) {
	var dropped atomic.Int32
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		dropped.Add(1)
		panic(http.ErrAbortHandler)
	}))
	srv.Config.ErrorLog = discardLog
	srv.StartTLS()
	defer srv.Close()
	c := attemptClient(t, srv.URL, func(c *Config) { c.CAFile = caFile(t, srv) })
	x, j := c.try(t)
	require.Equal(t, PhaseSent, x.phase)
	require.Equal(t, order.Unsure, j.Verdict)
	require.EqualValues(t, 1, dropped.Load())
}

func TestOnceBody(t *testing.T) {
	b := &onceBody{data: []byte("abc")}
	require.False(t, b.seal())
	_, err := b.Read(make([]byte, 3))
	require.ErrorIs(t, err, errSealed)

	b = &onceBody{data: []byte("abc")}
	n, err := b.Read(make([]byte, 2))
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.True(t, b.seal())
	require.NoError(t, b.Close())
}

// Headers and body leave in one piece on a connection in clear.
func TestOneWritePerOrder(t *testing.T) { eachClient(t, testOneWritePerOrder) }

func testOneWritePerOrder(t *testing.T, attemptClient clientMaker) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"code":0}`)
	}))
	defer srv.Close()
	c := attemptClient(t, srv.URL, nil)
	var writes atomic.Int32
	c.onDial(func(conn net.Conn) net.Conn { return tallyConn{conn, &writes} })
	for range 3 {
		x, reusable := c.post(context.Background(), "n", []byte(`{"order_no":"n"}`), keyA, "abc", "")
		require.Equal(t, 200, x.answer.Status)
		require.True(t, reusable)
	}
	require.EqualValues(t, 3, writes.Load())
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
