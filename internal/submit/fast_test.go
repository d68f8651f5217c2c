package submit

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

var tinyOrder = []byte(`{"order_no":"n","timeout":5,"timestamp":1}`)

// An answer that nobody asked for lies on a kept connection. It must not pass
// for the answer to the next order. (net/http notices it in its own time, and a
// request that is quicker gets it: no test of it can hold.)
func TestUnaskedAnswerIsNotTheNextOrders(t *testing.T) {
	twice := make(chan struct{})
	s := newRawServer(t, func(s *rawServer, n int, conn net.Conn, r *bufio.Reader) {
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
	c := attemptClient(t, s.url(), func(c *Config) { c.HTTPClient = HTTPFast })
	_, j := c.try(t)
	require.Equal(t, order.Accepted, j.Verdict)
	twice <- struct{}{}
	<-twice
	x, j := c.try(t)
	require.Equal(t, order.Rejected, j.Verdict)
	require.False(t, x.reused)
}

func TestTwoAnswersAtOnceEndTheConnection(t *testing.T) {
	eachClient(t, func(t *testing.T, attemptClient clientMaker) {
		s := newRawServer(t, func(s *rawServer, n int, conn net.Conn, r *bufio.Reader) {
			s.read(r)
			if n == 1 {
				io.WriteString(conn, okAnswer+okAnswer)
			} else {
				io.WriteString(conn, "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n")
			}
			io.Copy(io.Discard, r) //nolint:errcheck // until the client hangs up
		})
		c := attemptClient(t, s.url(), nil)
		_, j := c.try(t)
		require.Equal(t, order.Accepted, j.Verdict)
		x, j := c.try(t)
		require.Equal(t, order.Rejected, j.Verdict)
		require.False(t, x.reused)
	})
}

func TestLongHeadersAreRead(t *testing.T) {
	eachClient(t, func(t *testing.T, attemptClient clientMaker) {
		s := newRawServer(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
			for s.read(r) {
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Long: "+strings.Repeat("a", 30_000)+"\r\nContent-Length: 10\r\n\r\n{\"code\":0}")
			}
		})
		c := attemptClient(t, s.url(), nil)
		for range 3 {
			x, j := c.try(t)
			require.NoError(t, x.err)
			require.Equal(t, order.Accepted, j.Verdict)
		}
		require.EqualValues(t, 3, s.requests.Load())
	})
}

// The claim on the order ends while the answer is waited for.
func TestRequestIsBrokenOff(t *testing.T) {
	eachClient(t, func(t *testing.T, attemptClient clientMaker) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newRawServer(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
			s.read(r)
			cancel()
			io.Copy(io.Discard, r) //nolint:errcheck // until the client hangs up
		})
		x, _ := attemptClient(t, s.url(), nil).post(ctx, "n", tinyOrder, keyA, "abc", "")
		require.Equal(t, PhaseSent, x.phase)
		require.Equal(t, "no answer: interrupted", transportReason(x.phase, x.err))
		x, _ = attemptClient(t, s.url(), nil).post(ctx, "n", tinyOrder, keyA, "abc", "")
		require.Equal(t, PhaseConnect, x.phase, "nothing leaves after that")
		require.EqualValues(t, 1, s.requests.Load())
	})
}

func TestHeadersThatDoNotCome(t *testing.T) {
	eachClient(t, func(t *testing.T, attemptClient clientMaker) {
		s := newRawServer(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
			s.read(r)
			io.Copy(io.Discard, r) //nolint:errcheck // until the client hangs up
		})
		x, j := attemptClient(t, s.url(), func(c *Config) { c.HeaderTimeout = 50 * time.Millisecond }).try(t)
		require.Equal(t, PhaseSent, x.phase)
		require.Equal(t, "no answer: timeout", j.Reason)
		require.Less(t, x.ended.Sub(x.sent), 2*time.Second)
	})
}

func TestConnectionsAreNotKeptLongerThanSet(t *testing.T) {
	ended := make(chan struct{})
	s := newRawServer(t, func(s *rawServer, _ int, conn net.Conn, r *bufio.Reader) {
		for s.read(r) {
			io.WriteString(conn, okAnswer)
		}
		close(ended)
	})
	c := attemptClient(t, s.url(), func(c *Config) { c.HTTPClient, c.IdleTimeout = HTTPFast, 20*time.Millisecond })
	_, j := c.try(t)
	require.Equal(t, order.Accepted, j.Verdict)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the connection is still open")
	}
}

func TestWhichClientPosts(t *testing.T) {
	for _, c := range []struct {
		kind HTTPClient
		url  string
		fast bool
	}{
		{HTTPAuto, "http://127.0.0.1:1", canPeek},
		{HTTPAuto, "https://127.0.0.1:1", false},
		{HTTPFast, "https://127.0.0.1:1", true},
		{HTTPNet, "http://127.0.0.1:1", false},
	} {
		got := attemptClient(t, c.url, func(cfg *Config) { cfg.HTTPClient = c.kind })
		require.Equal(t, c.fast, got.fast != nil, "%s %s", c.kind, c.url)
	}
	var h HTTPClient
	require.Error(t, h.UnmarshalText([]byte("curl")))
}
