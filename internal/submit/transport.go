package submit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxHeader bounds an answer's headers, in bytes.
const maxHeader = 64 << 10

// newTransport builds the one transport of a Submitter. It is used through
// RoundTrip, never through an http.Client, so nothing follows redirects.
func newTransport(cfg Config) (*http.Transport, error) {
	tlsConf, err := tlsConfig(cfg)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &countedConn{Conn: conn}, nil
		},
		TLSClientConfig:        tlsConf,
		TLSHandshakeTimeout:    cfg.TLSTimeout,
		ResponseHeaderTimeout:  cfg.HeaderTimeout,
		IdleConnTimeout:        cfg.IdleTimeout,
		MaxIdleConns:           cfg.Concurrency + 2, // and the probe's
		MaxIdleConnsPerHost:    cfg.Concurrency + 2,
		MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2:      true,
		// A shared connection that died silently is noticed before it costs
		// every order its whole timeout.
		HTTP2:              &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
		DisableCompression: true, // nothing is asked for; what comes unasked is undone by us, bounded
	}, nil
}

func tlsConfig(cfg Config) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(64)}
	if cfg.CAFile == "" {
		return conf, nil
	}
	var err error
	conf.RootCAs, err = withCA(cfg.CAFile)
	return conf, err
}

func withCA(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("ORDERPOST_API_CA_FILE: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ORDERPOST_API_CA_FILE: %s holds no certificate", file)
	}
	return pool, nil
}

// tlsChatter is the longest write on a TLS connection that may be an alert or
// a key update rather than a piece of a request. A request's first record
// holds at least its request line and host, and is longer.
const tlsChatter = 64

// countedConn counts what was written, so that a failed request on a
// connection of its own (HTTP/1) is known to have left nothing behind.
type countedConn struct {
	net.Conn
	written atomic.Int64 // bytes
	long    atomic.Int64 // bytes, without writes of tlsChatter or less
	read    atomic.Int64 // bytes that came
	came    atomic.Int64 // of them, before the request's first byte was written
	given   atomic.Bool  // to a request that has written nothing yet
	shut    atomic.Bool  // no request may be written any more

	// For fasthttp's connections, which one request has at a time.
	requests int
	raw      syscall.RawConn // made when first needed
}

// noDeadline takes a deadline back.
var noDeadline time.Time

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// errShut ends a request on a connection that must not be used again. Nothing
// of the request was sent.
var errShut = errors.New("the connection was closed after an answer about another order")

// Write implements net.Conn.
func (c *countedConn) Write(p []byte) (int, error) {
	if c.shut.Load() {
		return 0, errShut
	}
	if c.given.CompareAndSwap(true, false) {
		c.came.Store(c.read.Load())
	}
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	if len(p) > tlsChatter {
		c.long.Add(int64(n))
	}
	return n, err
}

// wire watches one request on its connection. The transport calls it from
// goroutines of its own.
type wire struct {
	own   bool      // the connection is this request's own
	body  *onceBody // nil with own, and without a body
	wrote atomic.Bool

	mu     sync.Mutex
	conn   *countedConn // nil where the connection is shared (HTTP/2) or not ours
	secure bool
	before int64 // count at the time the connection was given
	got    bool  // a connection was given
	reused bool
	stray  bool // the answer began before the request was written
}

func (w *wire) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:              func(i httptrace.GotConnInfo) { w.gotConn(i.Conn, i.Reused) },
		GotFirstResponseByte: w.firstByte,
		WroteRequest:         func(i httptrace.WroteRequestInfo) { w.wrote.Store(i.Err == nil) },
	}
}

func (w *wire) gotConn(conn net.Conn, reused bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.got, w.reused, w.stray, w.conn = true, reused, false, nil
	if t, ok := conn.(*tls.Conn); ok {
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			return
		}
		w.secure, conn = true, t.NetConn()
	}
	if c, ok := conn.(*countedConn); ok {
		w.conn = c
		w.before = w.count()
		c.given.Store(true)
	}
}

// early says whether all that came until now came before the request's first
// byte was written.
func (c *countedConn) early() bool { return c.given.Load() || c.read.Load() == c.came.Load() }

// firstByte is told when the answer begins, before more is read. net/http looks
// for answers that nobody asked for, but a request may be quicker than that.
func (w *wire) firstByte() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stray = w.conn != nil && w.conn.early()
}

func (w *wire) isStray() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stray
}

// shut closes the request's connection, where it is the request's own. A request
// that was given the connection meanwhile is not written.
func (w *wire) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		w.conn.shut.Store(true)
		_ = w.conn.Close()
	}
}

func (w *wire) count() int64 {
	if w.secure {
		return w.conn.long.Load()
	}
	return w.conn.written.Load()
}

// end seals the body and says how far the request came if there was no answer.
//
// A body that nobody took was not sent. A body that was taken may still lie in
// the transport's buffer: on a connection of its own, nothing written means
// nothing sent; on a shared one (HTTP/2) that cannot be told.
func (w *wire) end() (p Phase, reused bool) {
	taken := w.own || w.body != nil && w.body.seal()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.own && !w.got:
		return PhaseConnect, false
	case taken && (w.conn == nil || w.count() != w.before):
		return PhaseSent, w.reused
	case w.got:
		return PhaseSend, w.reused
	default:
		return PhaseConnect, false
	}
}

// transportReason gives a failed request's stable phrase.
func transportReason(p Phase, err error) string {
	switch p {
	case PhaseConnect:
		return connectReason(err)
	case PhaseSend:
		return "nothing was sent: " + causeReason(err)
	default:
		return "no answer: " + causeReason(err)
	}
}

func connectReason(err error) string {
	var dns *net.DNSError
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return "name not resolved"
	case errors.As(err, &verify):
		return "certificate not trusted"
	case errors.As(err, &record), errors.As(err, &alert):
		return "TLS handshake failed"
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "proxy not reached"
	default:
		return "no connection: " + causeReason(err)
	}
}

func causeReason(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	default:
		return "connection lost"
	}
}
