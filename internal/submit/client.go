package submit

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// The paths of the API below its base URL (api-contract, section 4).
const (
	orderPath   = "/v1/order/create"
	accountPath = "/v1/account"
)

// client makes requests, and alone touches HTTP: HTTP/1.1, in clear or over
// TLS, one request at a time on each connection. fasthttp does the protocol;
// connections and the order of the steps are ours, so that it is known of each
// request how far it came, and none is sent twice.
type client struct {
	cfg     Config
	orders  *url.URL // for messages
	heads   heads
	dialer  *dialer
	pool    pool
	standIn *standIn // takes the requests, if not nil: a test's

	// ownNumbers: by a rule, the API has numbers of its own under order_no, so
	// another one is no reason to close a connection.
	ownNumbers bool

	dated atomic.Pointer[dated] // of the last answer that had no more than that
}

// newClient makes a client for the API at base.
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
	c := &client{cfg: cfg, orders: orders, dialer: d, pool: pool{keep: cfg.IdleTimeout},
		heads: heads{order: d.head(http.MethodPost, orders, cfg.UserAgent), account: d.head(http.MethodGet, account, cfg.UserAgent)}}
	return c, nil
}

// close closes the connections that are not in use, and those in use when they
// come back.
func (c *client) close() { c.pool.close() }

// post sends one signed order, at most once. Nobody reads body any more when it
// has returned.
//
// An answer that names another order, or that was there before the request, ends
// its connection: what else lies on it may answer other requests, too.
func (c *client) post(ctx context.Context, orderNo string, body []byte, key, signature, traceparent string) exchange {
	return c.do(ctx, &request{orderNo: orderNo, body: body, key: key, signature: signature, traceparent: traceparent})
}

// get reads the account: with the key alone, no signature, no body.
func (c *client) get(ctx context.Context, key string) exchange {
	return c.do(ctx, &request{account: true, key: key})
}

// do makes one request on a connection that is kept, or on a new one. A kept
// one is looked at first; one that has ended, or on which an answer lies that
// nobody asked for, is closed.
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
	conn := c.kept(x.sent)
	if x.reused = conn != nil; !x.reused {
		if conn, x.err = c.dialer.dial(ctx, until); x.err != nil {
			x.err = named(ctx, x.err)
			return x
		}
		if err := conn.quiet(x.sent); err != nil {
			conn.abort()
			x.phase, x.err = PhaseSend, fmt.Errorf("on a new connection: %w", err)
			return x
		}
	}
	keep := c.exchange(ctx, conn, r, until, &x)
	if !r.account {
		x.answer.Examine(r.orderNo)
		keep = keep && !x.answer.Stray && (c.ownNumbers || !x.answer.AboutAnother(x.answer.Status < 300))
	}
	if keep {
		c.pool.put(conn)
	} else {
		conn.abort()
	}
	return x
}

// kept gives a connection that can be used again, if there is one.
func (c *client) kept(now time.Time) *conn {
	for {
		conn := c.pool.take()
		if conn == nil {
			return nil
		}
		if now.Sub(conn.used) < c.cfg.IdleTimeout && conn.quiet(now) == nil {
			return conn
		}
		conn.abort()
	}
}
