package http1

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/valyala/fasthttp"
)

// Config holds the API's addresses and the limits on requests.
type Config struct {
	Orders  *url.URL // where orders are posted to
	Account *url.URL // of the account
	Base    *url.URL // the API's address, below which orders are looked up
	CAFile  string   // PEM file of authorities to trust for the API, besides the system's; "" = none
	// CertFile and KeyFile are PEM files of the certificate that the API is shown, read again when they change; "" = none is.
	CertFile, KeyFile string
	Log               zerolog.Logger // hears of a certificate that cannot be read again, or is not valid

	ConnectTimeout time.Duration // name resolution and TCP connect of one request
	TLSTimeout     time.Duration // TLS handshake of one request
	RequestTimeout time.Duration // one request, from the dial to the last byte of the answer
	IdleTimeout    time.Duration // how long an unused connection is kept

	// AllHeaders says that answers need all of their headers, not only the usual ones.
	AllHeaders bool
	// OtherOrderNo reports whether the API answers with its own numbers under order_no.
	// Another order_no is then no reason to close the connection. nil = it does not.
	OtherOrderNo func() bool
}

// headerTimeout bounds the time from the request's last byte to the answer's headers. It
// leaves a sixth of the request's time for the body.
func (c *Config) headerTimeout() time.Duration { return c.RequestTimeout - c.RequestTimeout/6 }

// userAgent is the User-Agent of every request.
const userAgent = "orderpost"

// Client sends requests to the API over HTTP/1.1, in clear or over TLS, one at a
// time on each connection. fasthttp encodes and parses. The client manages the
// connections and the order of the steps itself, so it knows how far each request
// got, and sends none twice. Its methods are safe for concurrent use.
type Client struct {
	cfg         Config
	orderHead   []byte // the constant first lines of a POST
	accountHead []byte // and of GET of the account
	dialer      *dialer
	pool        pool

	cachedHeader atomic.Pointer[cachedHeader] // of the last answer with no other headers that matter
}

// New returns a client. It sends nothing. It fails if the file of authorities cannot be
// read or the environment names a malformed proxy; the error names the setting.
func New(cfg Config) (*Client, error) {
	d, err := newDialer(cfg)
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, dialer: d, pool: pool{keep: cfg.IdleTimeout, age: longestUse},
		orderHead: d.head(http.MethodPost, cfg.Orders), accountHead: d.head(http.MethodGet, cfg.Account)}, nil
}

// Close closes the idle connections now, and the others when their request is over.
func (c *Client) Close() { c.pool.close() }

// Post sends one signed order at most once. It does not use o.Body after it returns.
// The request ends after Config.RequestTimeout, and when ctx ends.
//
// If the answer names another order, or arrived before the request was sent, Post
// closes the connection: the next answer on it might belong to another request, too.
func (c *Client) Post(ctx context.Context, o Order) Exchange {
	return c.do(ctx, &request{Order: o, head: c.orderHead, post: true})
}

// Get asks for the account. The request has the key, but no signature and no body.
func (c *Client) Get(ctx context.Context, key string) Exchange {
	return c.do(ctx, &request{Order: Order{Key: key}, head: c.accountHead})
}

// Look asks for an order by a path below the API's address. The request has the key, but no signature and no body.
func (c *Client) Look(ctx context.Context, key, orderNo, path string) Exchange {
	to, err := url.Parse(c.cfg.Base.String() + path)
	if err != nil {
		return Exchange{Err: err, Sent: time.Now(), Ended: time.Now()}
	}
	return c.do(ctx, &request{Order: Order{No: orderNo, Key: key}, head: c.dialer.head(http.MethodGet, to)})
}

// do sends one request on an idle connection, or on a new one if none is usable.
func (c *Client) do(ctx context.Context, r *request) (x Exchange) {
	x.Sent = time.Now()
	defer func() { x.Ended = time.Now() }()
	until := x.Sent.Add(c.cfg.RequestTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	if x.Err = ctx.Err(); x.Err != nil {
		return x
	}
	conn := c.takeIdle(x.Sent)
	if x.Reused = conn != nil; !x.Reused {
		if conn, x.Err = c.dialer.dial(ctx, until); x.Err != nil {
			x.Err = normalizeError(ctx, x.Err)
			return x
		}
		if err := conn.checkIdle(x.Sent); err != nil {
			conn.abort()
			x.Phase, x.Err = PhaseSend, fmt.Errorf("on a new connection: %w", err)
			c.handshakeOf(conn, &x)
			return x
		}
	}
	keep := c.exchange(ctx, conn, r, until, &x)
	c.handshakeOf(conn, &x)
	if r.No != "" {
		x.Answer.Examine(r.No)
		keep = keep && !x.Answer.Stray && (!x.Answer.AboutAnother(x.Answer.Status < 300) || c.cfg.OtherOrderNo != nil && c.cfg.OtherOrderNo())
	}
	if keep {
		c.pool.put(conn)
	} else {
		conn.abort()
	}
	return x
}

// handshakeOf makes a failed handshake of a first request that a server answered with a refusal of our certificate: it
// comes behind the client's own handshake.
func (c *Client) handshakeOf(conn *conn, x *Exchange) {
	if (x.Phase == PhaseSend || x.Phase == PhaseSent) && conn.requests <= 1 && aboutOurCertificate(x.Err) {
		x.Phase, x.Err = PhaseConnect, explain(c.dialer.addr, "", x.Err)
	}
}

// takeIdle returns a usable idle connection, or nil. It closes connections that are
// too old, that the server closed, or that hold an unsolicited answer.
func (c *Client) takeIdle(now time.Time) *conn {
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
func (c *Client) exchange(ctx context.Context, conn *conn, r *request, until time.Time, x *Exchange) (keep bool) {
	conn.requests++
	stop := func() bool { return true }
	if ctx.Done() != nil {
		stop = context.AfterFunc(ctx, func() { _ = conn.Conn.SetDeadline(pastDeadline) })
	}
	defer func() {
		if !stop() { // the request was canceled, or is being canceled
			keep = false
		}
		if x.Err != nil {
			x.Err = normalizeError(ctx, x.Err)
		}
	}()
	written, came := conn.socket.written, conn.socket.read
	err, late := c.send(ctx, conn, r, until)
	switch {
	case err != nil && conn.socket.written == written:
		x.Phase, x.Err = PhaseSend, err
		return false
	case err != nil:
		x.Phase, x.Err = PhaseSent, err
		c.readEarly(ctx, conn, came, until, x)
		return false
	case late != nil:
		x.Phase, x.Err = PhaseSent, late
		return false
	}
	sent := conn.socket.written - written
	keep = c.read(ctx, conn, came, until, x)
	unread := x.Answer.Status >= http.StatusBadRequest && sent > surelyRead || x.Answer.Status == http.StatusRequestEntityTooLarge
	return keep && !unread
}

// surelyRead is the size of a request that every server reads before it refuses it. A larger one may
// still be unread in the server's socket, and the next request on the connection would stand behind it.
const surelyRead = 8 << 10

// readEarly reads the answer to a request that could not be sent as a whole. Many servers refuse a
// large body, or an expired key, once they have read the headers, and read no more. Such
// a refusal is an answer. An early success is none: nobody can have read the order.
func (c *Client) readEarly(ctx context.Context, conn *conn, came int64, until time.Time, x *Exchange) {
	if conn.setDeadline(ctx, until) != nil {
		return
	}
	var early Exchange
	c.read(ctx, conn, came, until, &early)
	if early.Phase == PhaseDone && early.Answer.Status >= http.StatusBadRequest {
		x.Answer, x.Phase, x.Err = early.Answer, PhaseDone, nil
	} else if aboutOurCertificate(early.Err) {
		x.Err = early.Err
	}
}

func (c *Client) send(ctx context.Context, conn *conn, r *request, until time.Time) (err, late error) {
	buf := requestBuffers.Get().(*[]byte)
	text, err := r.append((*buf)[:0])
	if err == nil {
		err, late = conn.send(ctx, text, c.cfg.headerTimeout(), until)
	}
	if cap(text) <= maxKeptBuffer {
		*buf = text
		requestBuffers.Put(buf)
	}
	return err, late
}

// Order is one signed order. A key, signature or traceparent with a control character is
// not sent.
type Order struct {
	No          string // its order_no, which the answer is compared with
	Body        []byte
	Key         string // X-Api-Key
	Signature   string // X-Signature
	Traceparent string // the W3C trace header; "" = none
}

// request is a request for the API: an order, or GET of the account or of an order with a key alone.
type request struct {
	Order
	head []byte // the first lines
	post bool   // the order is posted
}

// head returns the constant first lines of the requests to a URL. If a proxy reads the
// requests, they name the whole URL and hold the proxy's credentials.
func (d *dialer) head(method string, u *url.URL) []byte {
	var h fasthttp.RequestHeader
	h.SetMethod(method)
	h.SetRequestURI(u.RequestURI())
	h.SetHost(u.Host)
	h.Set("Accept", "application/json")
	if method == fasthttp.MethodPost {
		h.SetContentType("application/json")
	}
	h.SetUserAgent(userAgent)
	if d.absolute() {
		h.SetRequestURI(u.String())
		if auth := basicAuth(d.proxy); auth != "" {
			h.Set("Proxy-Authorization", auth)
		}
	}
	text := h.AppendBytes(nil)
	return text[:len(text)-len("\r\n")]
}

var errHeaderValue = errors.New("the API key, the signature or the traceparent holds a character that no header can hold")

// append appends the bytes of the request to b.
func (r *request) append(b []byte) ([]byte, error) {
	if !fitsHeader(r.Key) || !fitsHeader(r.Signature) || !fitsHeader(r.Traceparent) {
		return b, errHeaderValue
	}
	line := func(name, value string) {
		b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
	}
	b = append(b, r.head...)
	line("X-Api-Key", r.Key)
	if !r.post {
		return append(b, "\r\n"...), nil
	}
	line("X-Signature", r.Signature)
	if r.Traceparent != "" {
		line("Traceparent", r.Traceparent)
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(r.Body)), 10)
	b = append(b, "\r\n\r\n"...)
	return append(b, r.Body...), nil
}

func fitsHeader(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// maxKeptBuffer is the largest buffer, in bytes, that is kept for another request.
const maxKeptBuffer = 64 << 10

var requestBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 2048); return &b }}
