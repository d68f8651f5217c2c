package gateway

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// mostConns bounds the connections at once, unless fewer files can be open. A wait over TLS takes some
// 50 kB. Those beyond the bound are told so, and beyond mostRefused more they are closed at once.
const (
	mostConns   = 8_000
	mostRefused = 500
)

// connections is a listener that bounds connections. A new one beyond the bound closes the one that was
// idle longest. If none may be closed, the new one is accepted, and answered with 503.
type connections struct {
	net.Listener
	most int64
	open atomic.Int64
	// minIdle is how long an idle connection is not closed to make room: a client that sends one
	// request after the other keeps it.
	minIdle time.Duration

	mu   sync.Mutex
	idle list.List // of *conn, the one that was idle longest first
}

// Accept implements net.Listener.
func (c *connections) Accept() (net.Conn, error) {
	for {
		accepted, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		n := c.open.Add(1)
		for n > c.most && c.closeIdle() {
			n = c.open.Load()
		}
		one := &conn{Conn: accepted, of: c, beyond: n > c.most}
		if n <= c.most+mostRefused {
			return one, nil
		}
		_ = one.Close()
	}
}

// conn is a connection that connections counts.
type conn struct {
	net.Conn
	of     *connections
	beyond bool // it is beyond the bound
	once   sync.Once
	since  time.Time     // when it became idle
	place  *list.Element // in connections.idle; nil = it is not idle
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close()
}

// connState is http.Server.ConnState.
func (c *connections) connState(nc net.Conn, state http.ConnState) {
	one := counted(nc)
	if one == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if one.place != nil {
		c.idle.Remove(one.place)
		one.place = nil
	}
	if state == http.StateIdle {
		one.since, one.place = time.Now(), c.idle.PushBack(one)
	}
}

// closeIdle closes the connection that was idle longest; false = none has been idle for minIdle.
func (c *connections) closeIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.idle.Front()
	if first == nil {
		return false
	}
	one := first.Value.(*conn)
	if time.Since(one.since) < c.minIdle {
		return false
	}
	c.idle.Remove(first)
	one.place = nil
	_ = one.Close()
	return true
}

// beyondKey is the context key of a connection beyond the bound.
type beyondKey struct{}

// counted returns the connection that connections counts; nil = it is another one.
func counted(nc net.Conn) *conn {
	if tls, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = tls.NetConn()
	}
	one, _ := nc.(*conn)
	return one
}

// connContext is http.Server.ConnContext.
func connContext(ctx context.Context, nc net.Conn) context.Context {
	if one := counted(nc); one != nil && one.beyond {
		return context.WithValue(ctx, beyondKey{}, true)
	}
	return ctx
}

// beyondLimit reports whether a request came on a connection beyond the bound.
func beyondLimit(ctx context.Context) bool { return ctx.Value(beyondKey{}) != nil }
