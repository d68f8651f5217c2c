package submit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"time"
)

// conn is a connection to the API, which one request has at a time.
type conn struct {
	net.Conn           // what requests are written to: the socket, or TLS over it
	socket   *socket   // at the bottom
	records  []*framed // below each layer of TLS
	requests int
	used     time.Time // when the last request was over
	deadline time.Time // the connection's, as far as it was set by await
	one      [1]byte   // for quiet
	sending  sending
}

// await sets the time at which the connection fails. To set it for each request
// would cost more than it is worth, so a deadline stands as long as it is up to
// 1/64 of the timeout late; the request's end, until, it never passes.
//
// A deadline that was set to break the request off must not be undone, hence ctx.
func (c *conn) await(ctx context.Context, from time.Time, timeout time.Duration, until time.Time) error {
	first := earlier(from.Add(timeout), until)
	last := earlier(first.Add(timeout/64), until)
	if c.deadline.Before(first) || c.deadline.After(last) {
		return c.setDeadline(ctx, last)
	}
	return ctx.Err()
}

func (c *conn) setDeadline(ctx context.Context, at time.Time) error {
	c.deadline = at
	if err := c.Conn.SetDeadline(at); err != nil {
		return err
	}
	return ctx.Err()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// errSpoke says that bytes came that answer nothing.
var errSpoke = errors.New("the server spoke without being asked (is it HTTP/1.1?)")

// quiet returns nil if nothing lies on a connection that no request has: neither
// its end nor bytes that would pass for the answer to the next request. On TLS,
// records may lie there that are none of the application's (session tickets, key
// updates): they are taken off and answered; the beginning of a record, which may
// become anything, is not waited for.
func (c *conn) quiet(now time.Time) error {
	if !c.deadline.After(now) {
		c.deadline = time.Time{}
		if err := c.Conn.SetDeadline(time.Time{}); err != nil {
			return err
		}
	}
	c.socket.glance = true
	n, err := c.Conn.Read(c.one[:])
	c.socket.glance = false
	if !canPeek {
		c.deadline = time.Time{}
	}
	switch {
	case n > 0:
		return errSpoke
	case !errors.Is(err, errNothing):
		return err
	}
	for _, r := range c.records {
		if !r.whole() {
			return errSpoke
		}
	}
	return nil
}

// secure puts TLS over the connection and shakes hands.
func (c *conn) secure(ctx context.Context, conf *tls.Config, timeout time.Duration) error {
	below := &framed{Conn: c.Conn}
	over := tls.Client(below, conf)
	c.records = append(c.records, below)
	c.Conn = over
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return over.HandshakeContext(ctx)
}

// abort closes the connection without a word to the other side, which might not
// take it.
func (c *conn) abort() { _ = c.socket.Conn.Close() }

// hangUp closes a connection that nothing is wrong with.
func (c *conn) hangUp() { _ = c.Conn.Close() }

// socket counts what is written and read, under any TLS, so that of a failed
// request it is known whether it has left anything behind.
type socket struct {
	net.Conn
	written int64 // bytes
	read    int64 // bytes
	glance  bool  // reads do not wait: errNothing

	raw   syscall.RawConn // made when first needed
	taken taken
}

// Read implements net.Conn.
func (s *socket) Read(p []byte) (n int, err error) {
	if s.glance {
		n, err = s.readNow(p)
	} else {
		n, err = s.Conn.Read(p)
	}
	s.read += int64(n)
	return n, err
}

// Write implements net.Conn.
func (s *socket) Write(p []byte) (int, error) {
	n, err := s.Conn.Write(p)
	s.written += int64(n)
	return n, err
}

// errNothing says that a read would have had to wait. crypto/tls goes on after
// an error that says it is temporary.
var errNothing error = nothing{}

type nothing struct{}

func (nothing) Error() string   { return "nothing to read" }
func (nothing) Timeout() bool   { return true }
func (nothing) Temporary() bool { return true }
