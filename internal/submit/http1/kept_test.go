package http1

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

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
	require.False(t, x.reused)
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
		require.False(t, x.reused)
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
