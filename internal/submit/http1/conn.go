package http1

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// conn is a connection to the API. One request at a time uses it.
type conn struct {
	net.Conn                  // the socket, or TLS over it
	socket   *socket          // below all TLS
	records  []*recordTracker // one below each layer of TLS
	requests int
	born     time.Time // when it was opened, or up to 10 s before: not all end at once
	used     time.Time // when the last request ended
	deadline time.Time // as set by await; zero = none
	one      [1]byte   // buffer of checkIdle
	sending  sending
}

// pastDeadline is a deadline that ends every wait on a connection.
var pastDeadline = time.Unix(1, 0)

// await sets the connection's deadline to from + timeout, but at most until. Setting
// a deadline is expensive, so await keeps one that is up to 1/64 of the timeout too
// late.
//
// await returns ctx's error if ctx ended: the deadline that aborts a request must not
// be overwritten unnoticed.
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

// errUnsolicited means that the server sent bytes without a request.
var errUnsolicited = errors.New("the server spoke without being asked (is it HTTP/1.1?)")

// checkIdle returns an error if an idle connection was closed by the server or holds
// bytes that would look like the answer to the next request. It does not wait.
//
// TLS records that carry no application data, such as session tickets and key
// updates, are read and handled. An incomplete record is an error.
func (c *conn) checkIdle(now time.Time) error {
	if !c.deadline.After(now) {
		c.deadline = time.Time{}
		if err := c.Conn.SetDeadline(time.Time{}); err != nil {
			return err
		}
	}
	c.socket.nonblocking = true
	n, err := c.Conn.Read(c.one[:])
	c.socket.nonblocking = false
	if !canPeek {
		c.deadline = time.Time{}
	}
	switch {
	case n > 0:
		return errUnsolicited
	case !errors.Is(err, errWouldBlock):
		return err
	}
	for _, r := range c.records {
		if !r.atBoundary() {
			return errUnsolicited
		}
	}
	return nil
}

// abort closes the socket without a TLS goodbye, which could block.
func (c *conn) abort() { _ = c.socket.Conn.Close() }

// hangUp closes a connection in good order.
func (c *conn) hangUp() { _ = c.Conn.Close() }

// socket counts the bytes written and read below TLS. After a failure, the count
// shows whether any part of the request was sent.
type socket struct {
	net.Conn
	written     int64 // bytes
	read        int64 // bytes
	nonblocking bool  // reads return errWouldBlock instead of waiting

	raw     syscall.RawConn // set at the first use
	pending nonblockingRead
}

// Read implements net.Conn.
func (s *socket) Read(p []byte) (n int, err error) {
	if s.nonblocking {
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

// errWouldBlock means that a read would have to wait. It is a temporary net.Error,
// because crypto/tls stays usable after such an error.
var errWouldBlock error = wouldBlock{}

type wouldBlock struct{}

func (wouldBlock) Error() string { return "nothing to read" }

func (wouldBlock) Timeout() bool { return true }

func (wouldBlock) Temporary() bool { return true }

// sending is the state of send. It is part of the connection to avoid allocations.
type sending struct {
	conn    *conn
	ctx     context.Context
	text    []byte
	timeout time.Duration // for the answer's headers
	until   time.Time     // the request's end
	wrote   bool          // the write was tried
	err     error         // of the write
	late    error         // of the wait for the answer
	do      func(fd uintptr) bool
}

// send writes the request in one call and waits until the connection is readable. On
// TLS a request of up to 16 KiB is one record. err is the error of the write, late
// that of the wait.
//
// The write happens inside callWhenReadable, so no read is tried in vain, and no read
// buffer is held before the answer arrives. The poller reports only what is new when
// the wait begins. What the server sent between checkIdle and that moment, such as an
// alert, would not wake it, so step looks for it after the write.
func (c *conn) send(ctx context.Context, text []byte, timeout time.Duration, until time.Time) (err, late error) {
	s := &c.sending
	s.conn, s.ctx, s.text, s.timeout, s.until = c, ctx, text, timeout, until
	s.wrote, s.err, s.late = false, nil, nil
	if s.do == nil {
		s.do = s.step
	}
	if late = c.await(ctx, time.Now(), timeout, until); late == nil {
		late = c.socket.callWhenReadable(s.do)
	}
	s.ctx, s.text = nil, nil
	switch {
	case !s.wrote:
		return late, nil
	case s.err != nil:
		return s.err, nil
	case s.late != nil:
		return nil, s.late
	default:
		return nil, late
	}
}

// step writes the request at the first call and returns true if something has arrived
// already. The second call means that the answer arrived: step returns true.
func (s *sending) step(fd uintptr) (over bool) {
	if s.wrote {
		return true
	}
	s.wrote = true
	began := time.Now()
	if _, s.err = s.conn.Write(s.text); s.err != nil {
		return true
	}
	if now := time.Now(); now.Sub(began) > 10*time.Millisecond { // the header timeout begins here
		s.late = s.conn.await(s.ctx, now, s.timeout, s.until)
	}
	return s.late != nil || arrived(fd)
}

// pool holds the idle connections. It takes the most recently used one first, so
// connections that are not needed age and are closed.
type pool struct {
	keep time.Duration // how long a connection may be idle
	age  time.Duration // how long a connection is used

	mu     sync.Mutex
	idle   []*conn // the longest idle first
	closed bool
	sweep  *time.Timer // runs closeOld; nil until the first put
	swept  bool        // sweep does not run, because idle is empty
}

// take returns the most recently used connection, or nil.
func (p *pool) take() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.idle) - 1
	if last < 0 {
		return nil
	}
	c := p.idle[last]
	p.idle[last] = nil
	p.idle = p.idle[:last]
	return c
}

// longestUse is how long a connection is used. A new one asks for the API's address
// again and looks at its certificate, however busy the worker is.
const longestUse = time.Minute

// put makes a connection idle. After close it closes the connection, and also one that
// was used for p.age.
func (p *pool) put(c *conn) {
	c.used = time.Now()
	if c.used.Sub(c.born) >= p.age {
		c.hangUp()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.hangUp()
		return
	}
	p.idle = append(p.idle, c)
	switch {
	case p.sweep == nil:
		p.sweep = time.AfterFunc(p.keep, p.closeOld)
	case p.swept:
		p.swept = false
		p.sweep.Reset(p.keep)
	}
}

// closeOld closes the connections that were idle for too long, and runs again when
// the next one is due.
func (p *pool) closeOld() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, old := time.Now(), 0
	for old < len(p.idle) && now.Sub(p.idle[old].used) >= p.keep {
		p.idle[old].hangUp()
		old++
	}
	left := copy(p.idle, p.idle[old:])
	clear(p.idle[left:])
	p.idle = p.idle[:left]
	if p.swept = left == 0; !p.swept && !p.closed {
		p.sweep.Reset(p.keep - now.Sub(p.idle[0].used))
	}
}

// close closes the idle connections, and every connection put later.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	for _, c := range p.idle {
		c.hangUp()
	}
	p.idle = nil
}
