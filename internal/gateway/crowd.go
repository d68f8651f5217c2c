package gateway

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// mostConns bounds the connections at once, unless fewer files can be open. Those beyond it are told
// so, and beyond mostTold more they are closed at once.
const (
	mostConns = 12_000
	mostTold  = 500
)

// crowd is a listener that counts connections. It accepts some more than its bound, so
// that they can be told that there are too many.
type crowd struct {
	net.Listener
	most int64
	open atomic.Int64
}

// Accept implements net.Listener.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		accepted, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		n := c.open.Add(1)
		one := &conn{Conn: accepted, crowd: c, crowded: n > c.most}
		if n <= c.most+mostTold {
			return one, nil
		}
		_ = one.Close()
	}
}

// conn is a connection that its crowd counts.
type conn struct {
	net.Conn
	crowd   *crowd
	crowded bool // it is beyond the bound
	once    sync.Once
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() { c.crowd.open.Add(-1) })
	return c.Conn.Close()
}

// crowdedKey is the context key of a connection beyond the bound.
type crowdedKey struct{}

// remember is http.Server.ConnContext.
func remember(ctx context.Context, nc net.Conn) context.Context {
	if tls, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = tls.NetConn()
	}
	if one, ok := nc.(*conn); ok && one.crowded {
		return context.WithValue(ctx, crowdedKey{}, true)
	}
	return ctx
}

// isCrowded reports whether a request came on a connection beyond the bound.
func isCrowded(ctx context.Context) bool { return ctx.Value(crowdedKey{}) != nil }
