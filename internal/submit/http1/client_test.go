package http1

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
)

func TestRefusedConnection(t *testing.T) { eachWay(t, testRefusedConnection) }

func testRefusedConnection(t *testing.T, w *way) {
	const nobodys = "127.0.0.1:1" // a port that was free a moment ago may be another test's by now
	x, j := w.client(t, w.url(nobodys), nil).try(t)
	if w.proxy == "http" && !w.secure { // its proxy answers in its place
		require.Equal(t, 502, x.Answer.Status)
		return
	}
	require.Equal(t, PhaseConnect, x.Phase)
	require.Equal(t, order.Retry, j.Verdict)
	if w.proxy == "" {
		require.Equal(t, "no connection: refused", j.Reason)
	} else {
		require.Equal(t, "proxy not reached", j.Reason)
	}
}

func TestNameThatIsNotResolved(t *testing.T) {
	err := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "api.invalid", IsNotFound: true}}
	require.Equal(t, "name not resolved", (&Exchange{Err: err}).Reason())
	require.Equal(t, order.Retry, answer.NoAnswer(PhaseConnect.MaySent(), "", "").Verdict)
}

// The server closes a kept connection between two requests. Either the client
// has noticed (it dials anew), or its write fails or is lost. Whatever it was:
// the order is sent at most once, and "retry" is said only if it was not sent.
func TestStaleConnection(t *testing.T) { eachWay(t, testStaleConnection) }

func testStaleConnection(t *testing.T, w *way) {
	for range 50 {
		closed := make(chan struct{})
		s := w.raw(t, func(s *rawServer, n int, conn net.Conn, r *bufio.Reader) {
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
		c := w.client(t, s.url(), nil)
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
			require.EqualValues(t, 0, sent, "said to be without effect: %v", x.Err)
		case order.Unsure:
			require.EqualValues(t, 0, sent)
			require.True(t, x.Reused)
		default:
			t.Fatalf("verdict %s", j.Verdict)
		}
		c.Close()
	}
}

// A kept connection that is reset while it is idle: nothing is written, and
// the counter proves it.
func TestNothingWrittenOnADeadConnection(t *testing.T) {
	eachWay(t, testNothingWrittenOnADeadConnection)
}

func testNothingWrittenOnADeadConnection(t *testing.T, w *way) {
	s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
		for s.read(r) {
			io.WriteString(conn, okAnswer)
		}
	})
	c := w.client(t, s.url(), nil)
	var last *brokenConn
	c.onDial(func(conn net.Conn) net.Conn {
		last = &brokenConn{Conn: conn}
		return last
	})
	_, j := c.try(t)
	require.Equal(t, order.Accepted, j.Verdict)
	last.broken.Store(true) // every write fails from now on
	x, j := c.try(t)
	require.Equal(t, PhaseSend, x.Phase)
	require.Equal(t, order.Retry, j.Verdict)
	require.True(t, x.Reused)
	require.EqualValues(t, 1, s.requests.Load(), "it is not repeated")

	last = nil
	_, j = c.try(t)
	require.Equal(t, order.Accepted, j.Verdict)
	last.after.Store(100) // some bytes leave, then it breaks
	x, j = c.try(t)
	require.Equal(t, PhaseSent, x.Phase, "%+v %v", x.Phase, x.Err)
	require.Equal(t, order.Unsure, j.Verdict)
	require.EqualValues(t, 2, s.requests.Load())
}

func TestFailuresAfterTheRequest(t *testing.T) { eachWay(t, testFailuresAfterTheRequest) }

func testFailuresAfterTheRequest(t *testing.T, w *way) {
	for name, c := range map[string]struct {
		answer string // then the connection ends
		reset  bool   // by a reset
		phase  Phase
		want   order.Verdict
	}{
		"dropped before the headers":  {"", false, PhaseSent, order.Unsure},
		"reset before the headers":    {"", true, PhaseSent, order.Unsure},
		"half a status line":          {"HTTP/1.1 2", false, PhaseSent, order.Unsure},
		"half the headers":            {"HTTP/1.1 200 OK\r\nContent-Le", false, PhaseSent, order.Unsure},
		"no HTTP at all":              {"220 mail.example ESMTP\r\n", false, PhaseSent, order.Unsure},
		"half the body of a 200":      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"co", false, PhaseCut, order.Unsure},
		"half a chunk":                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n{\"co", false, PhaseCut, order.Unsure},
		"bad chunk":                   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, PhaseCut, order.Unsure},
		"half the body of a 422":      {"HTTP/1.1 422 X\r\nContent-Length: 10\r\n\r\n{\"co", false, PhaseCut, order.Rejected},
		"half the body of a 429":      {"HTTP/1.1 429 X\r\nContent-Length: 10\r\n\r\n{\"co", true, PhaseCut, order.Retry},
		"half the body of a 503":      {"HTTP/1.1 503 X\r\nContent-Length: 10\r\n\r\n{\"co", false, PhaseCut, order.Unsure},
		"whole, until the end":        {"HTTP/1.1 200 OK\r\n\r\n{\"code\":0}", false, PhaseDone, order.Accepted},
		"an empty 201, until the end": {"HTTP/1.1 201 Created\r\n\r\n", false, PhaseCut, order.Unsure},
		"an empty 201":                {"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", false, PhaseDone, order.Unsure},
		"more than its length":        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}{\"code\":9}", false, PhaseCut, order.Unsure},
		"a line end behind it":        {okAnswer + "\r\n", false, PhaseDone, order.Accepted},
		"switching protocols":         {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", false, PhaseDone, order.Unsure},
		"after 100 and 103":           {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" + okAnswer, false, PhaseDone, order.Accepted},
	} {
		t.Run(name, func(t *testing.T) {
			s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
				if !s.read(r) {
					return
				}
				io.WriteString(conn, c.answer)
				if c.reset {
					lingerless(conn)
				}
			})
			x, j := w.client(t, s.url(), nil).try(t)
			if c.reset && x.Phase == PhaseSent { // a reset may overtake what was written before it
				c.phase, c.want = PhaseSent, order.Unsure
			}
			require.Equal(t, c.phase, x.Phase, "%v", x.Err)
			require.Equal(t, c.want, j.Verdict, j.Reason)
			require.EqualValues(t, 1, s.requests.Load(), "never sent again")
		})
	}
}

// The same on a kept connection, where others repeat it.
func TestDropOnAKeptConnectionIsNotRepeated(t *testing.T) {
	eachWay(t, testDropOnAKeptConnectionIsNotRepeated)
}

func testDropOnAKeptConnectionIsNotRepeated(t *testing.T, w *way) {
	s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
		s.read(r)
		io.WriteString(conn, okAnswer)
		s.read(r) // and no answer
	})
	c := w.client(t, s.url(), nil)
	c.try(t)
	x, j := c.try(t)
	require.True(t, x.Reused)
	require.Equal(t, PhaseSent, x.Phase)
	require.Equal(t, order.Unsure, j.Verdict)
	require.EqualValues(t, 2, s.requests.Load())
}

func TestHostileAnswers(t *testing.T) { eachWay(t, testHostileAnswers) }

func testHostileAnswers(t *testing.T, w *way) {
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
			s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
				if s.read(r) {
					c.answer(conn) //nolint:errcheck // ends when the client hangs up
				}
			})
			cl := w.client(t, s.url(), func(c *Config) { c.RequestTimeout = 500 * time.Millisecond })
			x, j := cl.try(t)
			require.Equal(t, c.phase, x.Phase, "%v", x.Err)
			require.Equal(t, order.Unsure, j.Verdict)
			require.Empty(t, j.Hold, "a fault of the line, not of the rules")
			require.LessOrEqual(t, len(x.Answer.Body), answer.MaxBody)
			require.Less(t, x.Ended.Sub(x.Sent), 3*time.Second)
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

func TestUnaskedGzipIsRead(t *testing.T) { eachWay(t, testUnaskedGzipIsRead) }

func testUnaskedGzipIsRead(t *testing.T, w *way) {
	url := w.serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			w.WriteHeader(400)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		io.WriteString(z, `{"code":0}`)
		z.Close()
	})
	_, j := w.client(t, url, nil).try(t)
	require.Equal(t, order.Accepted, j.Verdict)
}

func TestRedirectIsNotFollowed(t *testing.T) { eachWay(t, testRedirectIsNotFollowed) }

func testRedirectIsNotFollowed(t *testing.T, w *way) {
	var hits atomic.Int32
	url := w.serve(t, func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	x, j := w.client(t, url, nil).try(t)
	require.Equal(t, 307, x.Answer.Status)
	require.Equal(t, order.Unsure, j.Verdict)
	require.Contains(t, j.Hold, "it is a redirect to /elsewhere")
	require.EqualValues(t, 1, hits.Load())
}

func TestRequestOnTheWire(t *testing.T) { eachWay(t, testRequestOnTheWire) }

func testRequestOnTheWire(t *testing.T, w *way) {
	got := make(chan *http.Request, 2)
	url := w.serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		got <- r
	})
	c := w.client(t, url+"/base", nil)
	c.Post(context.Background(), Order{No: "n", Body: []byte(`{"a":1}`), Key: keyA, Signature: "5167", Traceparent: "00-trace"})
	r := <-got
	body, _ := io.ReadAll(r.Body)
	require.Equal(t, `{"a":1}`, string(body))
	require.Equal(t, "/base/v1/order/create", r.URL.Path)
	require.Equal(t, http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}, "Content-Length": {"7"},
		"User-Agent": {"orderpost"}, "X-Api-Key": {keyA}, "X-Signature": {"5167"}, "Traceparent": {"00-trace"}}, r.Header)
	c.Get(context.Background(), keyA)
	r = <-got
	require.Equal(t, "GET", r.Method)
	require.Equal(t, "/base/v1/account", r.URL.Path)
	require.Equal(t, http.Header{"Accept": {"application/json"}, "User-Agent": {"orderpost"}, "X-Api-Key": {keyA}}, r.Header)
}

// Headers and body leave in one piece, on TLS too.
func TestOneWritePerOrder(t *testing.T) { eachWay(t, testOneWritePerOrder) }

func testOneWritePerOrder(t *testing.T, w *way) {
	url := w.serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"code":0}`)
	})
	c := w.client(t, url, nil)
	var writes atomic.Int32
	before := int32(0)
	c.onDial(func(conn net.Conn) net.Conn { return tallyConn{conn, &writes} })
	for range 3 {
		x := c.Post(context.Background(), Order{No: "n", Body: []byte(`{"order_no":"n","x":"` + strings.Repeat("y", 12_000) + `"}`), Key: keyA, Signature: "abc"})
		require.Equal(t, 200, x.Answer.Status)
		if x.Reused {
			require.EqualValues(t, before+1, writes.Load())
		}
		before = writes.Load()
	}
}
