package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// heldBack lets a server write several records at once.
type heldBack struct {
	net.Conn
	hold bool
	buf  bytes.Buffer
}

func (h *heldBack) Write(p []byte) (int, error) {
	if h.hold {
		return h.buf.Write(p)
	}
	return h.Conn.Write(p)
}

func (h *heldBack) release() {
	h.hold = false
	h.Conn.Write(h.buf.Bytes()) //nolint:errcheck // the client notices
}

// dialled is a connection of c's that no request had.
func dialled(t *testing.T, c *Client) *conn {
	conn, err := c.dialer.dial(t.Context(), time.Now().Add(5*time.Second))
	require.NoError(t, err)
	t.Cleanup(conn.abort)
	return conn
}

// Session tickets that come on an unused connection are no answer to anything. A
// server that asked for a certificate sends them after the handshake, others
// with its end.
func TestSessionTicketsOnAnUnusedConnection(t *testing.T) {
	for _, late := range []bool{false, true} {
		w := &way{secure: true}
		conf := w.serverTLS()
		if late {
			conf.ClientAuth = tls.RequestClientCert
		}
		s := (&way{}).raw(t, func(s *rawServer, n int, conn net.Conn, _ *bufio.Reader) {
			over := tls.Server(conn, conf)
			answering(okAnswer)(s, n, over, bufio.NewReader(over))
		})
		c := w.client(t, "https://"+s.ln.Addr().String(), nil)
		conn := dialled(t, c)
		before := conn.socket.read
		if late {
			require.NoError(t, conn.socket.readable())
		}
		require.NoError(t, conn.checkIdle(time.Now()))
		require.Equal(t, late, conn.socket.read > before)
		host, _, _ := net.SplitHostPort(c.dialer.addr)
		_, kept := c.dialer.conf.ClientSessionCache.Get(host)
		require.True(t, kept, "they were taken off")

		c.pool.put(conn)
		x, _ := c.try(t)
		require.NoError(t, x.Err)
		require.True(t, x.Reused || conn.requests == 1)
		c.Close()
	}
}

func TestEndsOnAnUnusedConnection(t *testing.T) {
	for name, end := range map[string]func(conn net.Conn){
		"close_notify":       func(conn net.Conn) { conn.(*tls.Conn).CloseWrite() },
		"a FIN without it":   func(conn net.Conn) { conn.(*tls.Conn).NetConn().(*net.TCPConn).CloseWrite() },
		"a reset":            func(conn net.Conn) { lingerless(conn); conn.(*tls.Conn).NetConn().Close() },
		"half a record":      func(conn net.Conn) { conn.(*tls.Conn).NetConn().Write([]byte{23, 3, 3, 0, 60, 1, 2, 3}) },
		"half a head":        func(conn net.Conn) { conn.(*tls.Conn).NetConn().Write([]byte{23, 3}) },
		"garbage":            func(conn net.Conn) { conn.(*tls.Conn).NetConn().Write(bytes.Repeat([]byte{7}, 99)) },
		"an unasked answer":  func(conn net.Conn) { io.WriteString(conn, okAnswer) },
		"an unasked newline": func(conn net.Conn) { io.WriteString(conn, "\r\n") },
	} {
		t.Run(name, func(t *testing.T) {
			w, idle := &way{secure: true}, make(chan struct{})
			s := w.raw(t, func(s *rawServer, n int, conn net.Conn, r *bufio.Reader) {
				if s.read(r); n == 1 {
					io.WriteString(conn, okAnswer)
					<-idle
					end(conn)
				} else {
					io.WriteString(conn, okAnswer)
				}
				io.Copy(io.Discard, r)
			})
			c := w.client(t, s.url(), nil)
			c.accepted(t)
			conn := c.pool.idle[0]
			require.NoError(t, conn.checkIdle(time.Now()))
			close(idle)
			require.NoError(t, conn.socket.readable())
			require.Error(t, conn.checkIdle(time.Now()))
			require.False(t, c.accepted(t).Reused)
		})
	}
}

// An answer that nobody asked for came with the one before it, and lies in
// crypto/tls, not in the socket.
func TestUnaskedAnswerInsideTLS(t *testing.T) {
	w := &way{secure: true}
	s := (&way{}).raw(t, func(s *rawServer, n int, conn net.Conn, _ *bufio.Reader) {
		held := &heldBack{Conn: conn}
		over := tls.Server(held, w.serverTLS())
		r := bufio.NewReader(over)
		s.read(r)
		if held.hold = n < 3; held.hold {
			io.WriteString(over, okAnswer)
			io.WriteString(over, okAnswer)
			held.release()
		} else {
			io.WriteString(over, okAnswer)
		}
		answering(okAnswer)(s, n, over, r)
	})
	c := w.client(t, "https://"+s.ln.Addr().String(), nil)
	c.accepted(t)
	x, _ := c.try(t)
	require.False(t, x.Reused)

	// Were it overlooked, it would be known as soon as it is read.
	conn := c.pool.take()
	require.NotNil(t, conn)
	x = Exchange{}
	c.exchange(t.Context(), conn, &request{Order: tiny}, time.Now().Add(time.Second), &x)
	conn.abort()
	require.True(t, x.Answer.Stray, "%v", x.Err)
}

// The answer's last byte and the next one's first may come in any pieces.
func TestRecordBorders(t *testing.T) {
	var stream []byte
	var borders []int
	for _, size := range []int{0, 1, 4, 5, 300, 16384} {
		stream = append(append(stream, 23, 3, 3, byte(size>>8), byte(size)), make([]byte, size)...)
		borders = append(borders, len(stream))
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		f, at := &recordTracker{}, 0
		for at < len(stream) {
			n := min(1+r.IntN(1+r.IntN(400)), len(stream)-at)
			f.follow(stream[at : at+n])
			at += n
			whole := false
			for _, b := range borders {
				whole = whole || b == at
			}
			require.Equal(t, whole, f.atBoundary(), "seed %d at %d", seed, at)
		}
	}
}

func FuzzRecordBorders(f *testing.F) {
	f.Add([]byte{23, 3, 3, 0, 2, 9, 9, 21, 3}, 3)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		cut = max(0, min(cut, len(stream)))
		one, two := &recordTracker{}, &recordTracker{}
		one.follow(stream)
		two.follow(stream[:cut])
		two.follow(stream[cut:])
		require.Equal(t, one.atBoundary(), two.atBoundary())
		require.Equal(t, one.left, two.left)
	})
}

// The pool gives the connection that was used last, and closes the rest in time.
func TestPoolClosesWhatItKeepsForTooLong(t *testing.T) {
	w := &way{}
	c := w.client(t, w.raw(t, answering(okAnswer)).url(), func(c *Config) { c.IdleTimeout = time.Minute })
	old, young := dialled(t, c), dialled(t, c)
	c.pool.put(old)
	c.pool.put(young)
	old.used = time.Now().Add(-2 * time.Minute)
	c.pool.closeOld()
	require.Error(t, old.checkIdle(time.Now()))
	require.Same(t, young, c.pool.take())
	require.Nil(t, c.pool.take())

	young.used = time.Now().Add(-2 * time.Minute)
	c.pool.idle = append(c.pool.idle, young)
	require.False(t, c.accepted(t).Reused, "one that has aged is not used, whether it was swept or not")
	require.Error(t, young.checkIdle(time.Now()))

	late := dialled(t, c)
	c.Close()
	c.pool.put(late)
	require.Error(t, late.checkIdle(time.Now()), "what comes back after the end is closed")
}

// Deadlines stand for several requests, but never longer than by 1/64.
func TestDeadlinesAreKept(t *testing.T) {
	w := &way{}
	c := w.client(t, w.raw(t, answering(okAnswer)).url(), nil)
	conn := dialled(t, c)
	now := time.Now()
	until := now.Add(time.Hour)
	await := func(after, timeout time.Duration) time.Duration {
		require.NoError(t, conn.await(t.Context(), now.Add(after), timeout, until))
		return conn.deadline.Sub(now)
	}
	first := await(0, 64*time.Second)
	require.Equal(t, 65*time.Second, first)
	require.Equal(t, first, await(900*time.Millisecond, 64*time.Second), "near enough")
	require.Equal(t, 66100*time.Millisecond, await(1100*time.Millisecond, 64*time.Second), "it would end the wait early")
	require.Equal(t, 6600*time.Millisecond, await(100*time.Millisecond, 6400*time.Millisecond+1).Round(100*time.Millisecond), "it would come late")
	require.Equal(t, time.Hour, await(time.Hour-time.Second, time.Minute), "not beyond the request's end")
}

// An answer that nobody asked for lies on a kept connection. It must not pass
// for the answer to the next order.
func TestUnaskedAnswerIsNotTheNextOrders(t *testing.T) {
	eachWay(t, testUnaskedAnswerIsNotTheNextOrders)
}

func testUnaskedAnswerIsNotTheNextOrders(t *testing.T, w *way) {
	twice := make(chan struct{})
	s := w.raw(t, func(s *rawServer, n int, conn net.Conn, r *bufio.Reader) {
		s.read(r)
		if n > 1 {
			io.WriteString(conn, "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n")
			return
		}
		io.WriteString(conn, okAnswer)
		<-twice // the first answer has been read
		io.WriteString(conn, okAnswer)
		twice <- struct{}{}
		io.Copy(io.Discard, r) //nolint:errcheck // until the client hangs up
	})
	c := w.client(t, s.url(), nil)
	_, j := c.try(t)
	require.Equal(t, order.Accepted, j.Verdict)
	twice <- struct{}{}
	<-twice
	require.NoError(t, c.pool.idle[0].socket.readable()) // until it is there
	x, j := c.try(t)
	require.Equal(t, order.Rejected, j.Verdict)
	require.False(t, x.Reused)
}

func TestTwoAnswersAtOnceEndTheConnection(t *testing.T) {
	eachWay(t, func(t *testing.T, w *way) {
		s := w.raw(t, func(s *rawServer, n int, conn net.Conn, r *bufio.Reader) {
			s.read(r)
			if n == 1 {
				io.WriteString(conn, okAnswer+okAnswer)
			} else {
				io.WriteString(conn, "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n")
			}
			io.Copy(io.Discard, r) //nolint:errcheck // until the client hangs up
		})
		c := w.client(t, s.url(), nil)
		_, j := c.try(t)
		require.Equal(t, order.Unsure, j.Verdict, "one of them is another request's")
		require.Empty(t, j.Hold)
		x, j := c.try(t)
		require.Equal(t, order.Rejected, j.Verdict)
		require.False(t, x.Reused)
	})
}

func TestLongHeadersAreRead(t *testing.T) {
	eachWay(t, func(t *testing.T, w *way) {
		s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
			for s.read(r) {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Long: "+strings.Repeat("a", 30_000)+"\r\nContent-Length: 10\r\n\r\n{\"code\":0}")
			}
		})
		c := w.client(t, s.url(), nil)
		for range 3 {
			x, j := c.try(t)
			require.NoError(t, x.Err)
			require.Equal(t, order.Accepted, j.Verdict)
		}
		require.EqualValues(t, 3, s.requests.Load())
	})
}

// The claim on the order ends while the answer is waited for.
func TestRequestIsBrokenOff(t *testing.T) {
	eachWay(t, func(t *testing.T, w *way) {
		ctx, cancel := context.WithCancel(t.Context())
		s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
			s.read(r)
			cancel()
			io.Copy(io.Discard, r) //nolint:errcheck // until the client hangs up
		})
		x := w.client(t, s.url(), nil).Post(ctx, tiny)
		require.Equal(t, PhaseSent, x.Phase)
		require.Equal(t, "no answer: interrupted", x.Reason())
		x = w.client(t, s.url(), nil).Post(ctx, tiny)
		require.Equal(t, PhaseConnect, x.Phase, "nothing leaves after that")
		require.EqualValues(t, 1, s.requests.Load())
	})
}

func TestHeadersThatDoNotCome(t *testing.T) {
	eachWay(t, func(t *testing.T, w *way) {
		s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
			s.read(r)
			io.Copy(io.Discard, r) //nolint:errcheck // until the client hangs up
		})
		x, j := w.client(t, s.url(), func(c *Config) { c.RequestTimeout = 300 * time.Millisecond }).try(t)
		require.Equal(t, PhaseSent, x.Phase)
		require.Equal(t, "no answer: timeout", j.Reason)
		require.Less(t, x.Ended.Sub(x.Sent), 2*time.Second)
	})
}

func TestConnectionsAreNotKeptLongerThanSet(t *testing.T) {
	eachWay(t, testConnectionsAreNotKeptLongerThanSet)
}

func testConnectionsAreNotKeptLongerThanSet(t *testing.T, w *way) {
	ended := make(chan struct{})
	s := w.raw(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
		for s.read(r) {
			io.WriteString(conn, okAnswer)
		}
		close(ended)
	})
	c := w.client(t, s.url(), func(c *Config) { c.IdleTimeout = 20 * time.Millisecond })
	_, j := c.try(t)
	require.Equal(t, order.Accepted, j.Verdict)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the connection is still open")
	}
}
