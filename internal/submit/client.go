package submit

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"orderpost/internal/submit/answer"
)

// The paths of the API below its base URL (docs/signing.md).
const (
	orderPath   = "/v1/order/create"
	accountPath = "/v1/account"
)

// client sends requests to the API over HTTP/1.1, in clear or over TLS, one at a
// time on each connection. fasthttp encodes and parses. The client manages the
// connections and the order of the steps itself, so it knows how far each request
// got, and sends none twice.
type client struct {
	cfg     Config
	orders  *url.URL // for messages
	heads   heads
	dialer  *dialer
	pool    pool
	standIn *standIn // a test's transport; nil = none

	// rules say whether the API answers with its own numbers under order_no. Another
	// order_no is then no reason to close the connection.
	rules *answer.Rules

	cachedHeader atomic.Pointer[cachedHeader] // of the last answer with no other headers that matter
}

// newClient returns a client for the API at base.
func newClient(cfg Config, base string) (*client, error) {
	orders, err := url.Parse(base + orderPath)
	if err != nil {
		return nil, err
	}
	account, err := url.Parse(base + accountPath)
	if err != nil {
		return nil, err
	}
	d, err := newDialer(cfg, orders)
	if err != nil {
		return nil, err
	}
	c := &client{cfg: cfg, orders: orders, dialer: d, pool: pool{keep: cfg.IdleTimeout, age: longestUse},
		heads: heads{order: d.head(http.MethodPost, orders, userAgent), account: d.head(http.MethodGet, account, userAgent)}}
	return c, nil
}

// close closes the idle connections now, and the others when their request is over.
func (c *client) close() { c.pool.close() }

// post sends one signed order at most once. It does not use body after it returns.
//
// If the answer names another order, or arrived before the request was sent, post
// closes the connection: the next answer on it might belong to another request, too.
func (c *client) post(ctx context.Context, orderNo string, body []byte, key, signature, traceparent string) exchange {
	return c.do(ctx, &request{orderNo: orderNo, body: body, key: key, signature: signature, traceparent: traceparent})
}

// get asks for the account. The request has the key, but no signature and no body.
func (c *client) get(ctx context.Context, key string) exchange {
	return c.do(ctx, &request{account: true, key: key})
}

// do sends one request on an idle connection, or on a new one if none is usable.
func (c *client) do(ctx context.Context, r *request) (x exchange) {
	x.sent = time.Now()
	defer func() { x.ended = time.Now() }()
	if c.standIn != nil {
		c.standIn.carry(ctx, c, r, &x)
		return x
	}
	until := x.sent.Add(c.cfg.RequestTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	if x.err = ctx.Err(); x.err != nil {
		return x
	}
	conn := c.takeIdle(x.sent)
	if x.reused = conn != nil; !x.reused {
		if conn, x.err = c.dialer.dial(ctx, until); x.err != nil {
			x.err = normalizeError(ctx, x.err)
			return x
		}
		if err := conn.checkIdle(x.sent); err != nil {
			conn.abort()
			x.phase, x.err = PhaseSend, fmt.Errorf("on a new connection: %w", err)
			return x
		}
	}
	keep := c.exchange(ctx, conn, r, until, &x)
	if !r.account {
		x.answer.Examine(r.orderNo)
		keep = keep && !x.answer.Stray && (!x.answer.AboutAnother(x.answer.Status < 300) || c.rules.AllowsOtherOrderNo())
	}
	if keep {
		c.pool.put(conn)
	} else {
		conn.abort()
	}
	return x
}

// takeIdle returns a usable idle connection, or nil. It closes connections that are
// too old, that the server closed, or that hold an unsolicited answer.
func (c *client) takeIdle(now time.Time) *conn {
	for {
		conn := c.pool.take()
		if conn == nil {
			return nil
		}
		if now.Sub(conn.used) < c.cfg.IdleTimeout && conn.checkIdle(now) == nil {
			return conn
		}
		conn.abort()
	}
}

// exchange sends the request and reads the answer. It reports whether the connection
// can be used again.
func (c *client) exchange(ctx context.Context, conn *conn, r *request, until time.Time, x *exchange) (keep bool) {
	conn.requests++
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = conn.Conn.SetDeadline(pastDeadline) })
	}
	defer func() {
		if !stop() { // the request was canceled, or is being canceled
			keep = false
		}
		if x.err != nil {
			x.err = normalizeError(ctx, x.err)
		}
	}()
	written, came := conn.socket.written, conn.socket.read
	err, late := c.send(ctx, conn, r, until)
	switch {
	case err != nil && conn.socket.written == written:
		x.phase, x.err = PhaseSend, err
		return false
	case err != nil:
		x.phase, x.err = PhaseSent, err
		return false
	case late != nil:
		x.phase, x.err = PhaseSent, late
		return false
	}
	return c.read(ctx, conn, came, until, x)
}

func (c *client) send(ctx context.Context, conn *conn, r *request, until time.Time) (err, late error) {
	buf := requestBuffers.Get().(*[]byte)
	text, err := c.heads.append((*buf)[:0], r)
	if err == nil {
		err, late = conn.send(ctx, text, c.cfg.headerTimeout(), until)
	}
	if cap(text) <= maxKeptBuffer {
		*buf = text
		requestBuffers.Put(buf)
	}
	return err, late
}
