package submit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"orderpost/internal/submit/answer"
)

// HTTPClient is the setting of ORDERPOST_HTTP_CLIENT.
type HTTPClient uint8

// The HTTP clients.
const (
	// HTTPAuto: fasthttp for a base URL in clear without a proxy, else net/http.
	HTTPAuto HTTPClient = iota
	// HTTPFast: fasthttp, HTTP/1.1 alone, over TLS too.
	HTTPFast
	// HTTPNet: net/http, with HTTP/2 over TLS where the API offers it.
	HTTPNet
)

var httpClientNames = [...]string{"auto", "fast", "net"}

// String gives the setting's word.
func (h HTTPClient) String() string { return httpClientNames[h] }

// MarshalText implements encoding.TextMarshaler.
func (h HTTPClient) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *HTTPClient) UnmarshalText(text []byte) error {
	for i, name := range httpClientNames {
		if name == string(text) {
			*h = HTTPClient(i)
			return nil
		}
	}
	return fmt.Errorf("unknown HTTP client %q: expected auto, fast or net", text)
}

// fastClient posts by fasthttp: HTTP/1.1, one request at a time on each
// connection. fasthttp does the protocol and keeps the connections; the order
// of its steps is ours, so that it is known of each request how far it came,
// and none is sent twice.
type fastClient struct {
	cfg      Config
	host     *fasthttp.HostClient
	requests sync.Pool // of *fasthttp.Request, all but the order's own filled in
	all      bool      // rules may ask for any header of an answer

	ownNumbers bool // as in client

	waiting atomic.Int64 // requests that wait for their answers, or read them
	many    int64        // as many as manyWaiting

	dated atomic.Pointer[dated] // of the last answer that had no more than that

	used   atomic.Int64 // unix nanoseconds of the last request
	closer *time.Timer  // closes connections that nobody uses
	closed atomic.Bool
}

// newFastClient makes a client for the address of cfg. It returns nil where
// net/http is to be used.
func newFastClient(cfg Config, target *url.URL) (*fastClient, error) {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: target})
	if err != nil {
		return nil, err
	}
	secure := target.Scheme == "https"
	switch {
	case cfg.HTTPClient == HTTPNet, cfg.HTTPClient == HTTPAuto && (secure || proxy != nil || !canPeek):
		return nil, nil
	case proxy != nil:
		return nil, errors.New("ORDERPOST_HTTP_CLIENT: fast knows no proxies, and the environment names one; use net or auto")
	}
	dial, err := fastDial(cfg, target)
	if err != nil {
		return nil, err
	}
	f := &fastClient{cfg: cfg, many: manyWaiting, all: cfg.Rules != "", host: &fasthttp.HostClient{
		Addr: addrOf(target), IsTLS: secure, DialTimeout: dial, MaxConns: 1 << 30, // the gate bounds them
		ConnPoolStrategy: fasthttp.LIFO,
	}}
	f.requests.New = func() any { return f.newRequest(target) }
	f.closer = time.AfterFunc(cfg.IdleTimeout, f.closeUnused)
	return f, nil
}

func addrOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// fastDial connects and shakes hands, so that a connection is all the order's
// own from the first byte that is counted.
func fastDial(cfg Config, target *url.URL) (fasthttp.DialFuncWithTimeout, error) {
	conf, err := tlsConfig(cfg)
	if err != nil {
		return nil, err
	}
	conf.ServerName, conf.NextProtos = target.Hostname(), []string{"http/1.1"}
	return func(addr string, within time.Duration) (net.Conn, error) {
		dialer := net.Dialer{Timeout: min(within, cfg.ConnectTimeout), KeepAlive: 15 * time.Second}
		began := time.Now()
		raw, err := dialer.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		counted := &countedConn{Conn: raw}
		if target.Scheme != "https" {
			return counted, nil
		}
		conn := tls.Client(counted, conf)
		ctx, cancel := context.WithTimeout(context.Background(), min(cfg.TLSTimeout, within-time.Since(began)))
		defer cancel()
		if err := conn.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		return conn, nil
	}, nil
}

func (f *fastClient) newRequest(target *url.URL) *fasthttp.Request {
	req := &fasthttp.Request{}
	req.SetRequestURI(target.String())
	req.Header.SetMethod(http.MethodPost)
	req.Header.Set("Accept", "application/json")
	req.Header.SetContentType("application/json")
	req.Header.SetUserAgent(f.cfg.UserAgent)
	return req
}

// close closes the connections that are not in use.
func (f *fastClient) close() {
	f.closed.Store(true)
	f.closer.Stop()
	f.host.CloseIdleConnections()
}

// closeUnused closes connections when nothing was sent for the idle timeout.
// While orders flow, one that has aged is closed when its turn comes.
func (f *fastClient) closeUnused() {
	if f.closed.Load() {
		return
	}
	idle := time.Since(time.Unix(0, f.used.Load()))
	if idle >= f.cfg.IdleTimeout {
		f.host.CloseIdleConnections()
		idle = 0
	}
	f.closer.Reset(f.cfg.IdleTimeout - idle)
}

// longAgo ends what waits on a connection.
var longAgo = time.Unix(1, 0)

// post sends one signed order, at most once. Nobody reads body any more when it
// has returned.
func (f *fastClient) post(ctx context.Context, orderNo string, body []byte, key, signature, traceparent string) (x exchange) {
	x.sent = time.Now()
	f.used.Store(x.sent.UnixNano())
	defer func() { x.ended = time.Now() }()
	until := x.sent.Add(f.cfg.RequestTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(until) {
		until = d
	}
	for {
		if x.err = ctx.Err(); x.err != nil {
			return x
		}
		cc, err := f.host.AcquireConn(time.Until(until), true) // true: fasthttp starts no cleaner of its own
		if err != nil {
			x.err = fastError(ctx, err)
			return x
		}
		l := lane{f: f, conn: cc.Conn(), counted: countedOf(cc.Conn())}
		x.reused = l.counted.requests > 0
		if x.reused && (time.Since(cc.LastUseTime()) >= f.cfg.IdleTimeout || !l.counted.quiet()) {
			f.host.CloseConn(cc) // it is over, or holds an answer that nobody asked for
			continue
		}
		if !x.reused && !f.host.IsTLS && !l.counted.quiet() {
			f.host.CloseConn(cc)
			x.phase, x.err = PhaseSend, errSpokeFirst
			return x
		}
		keep := l.exchange(ctx, until, &x, func(req *fasthttp.Request) {
			req.Header.Set("X-Api-Key", key)
			req.Header.Set("X-Signature", signature)
			req.Header.Del("Traceparent")
			if traceparent != "" {
				req.Header.Set("Traceparent", traceparent)
			}
			req.SetBodyRaw(body)
		})
		x.answer.Examine(orderNo)
		if keep && !x.answer.Stray && (f.ownNumbers || !x.answer.AboutAnother(x.answer.Status < 300)) {
			f.host.ReleaseConn(cc)
		} else {
			f.host.CloseConn(cc)
		}
		return x
	}
}

var errSpokeFirst = errors.New("the connection was closed before the request was sent")

// lane is a connection while one request has it.
type lane struct {
	f       *fastClient
	conn    net.Conn
	counted *countedConn
}

func countedOf(conn net.Conn) *countedConn {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	return conn.(*countedConn)
}

func (l *lane) count() int64 {
	if l.f.host.IsTLS {
		return l.counted.long.Load()
	}
	return l.counted.written.Load()
}

// exchange sends the request and reads the answer. It says whether the
// connection can be used again.
func (l *lane) exchange(ctx context.Context, until time.Time, x *exchange, fill func(*fasthttp.Request)) (keep bool) {
	before := l.count()
	l.counted.given.Store(true)
	l.counted.requests++
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(longAgo) })
	defer func() {
		if !stop() { // it has been, or is being, broken off
			keep = false
		}
		if x.err != nil {
			x.err = fastError(ctx, x.err)
		}
	}()
	began := time.Now()
	first := headerDeadline(began, until, l.f.cfg.HeaderTimeout)
	if x.err = l.setDeadline(ctx, first); x.err == nil {
		x.err = l.write(fill)
	}
	if x.err != nil {
		x.phase = PhaseSend
		if l.count() != before {
			x.phase = PhaseSent
		}
		return false
	}
	if written := time.Now(); written.Sub(began) > 10*time.Millisecond { // the header timeout begins here
		first = headerDeadline(written, until, l.f.cfg.HeaderTimeout)
		if x.err = l.setDeadline(ctx, first); x.err != nil {
			x.phase = PhaseSent
			return false
		}
	}
	return l.read(ctx, until, x)
}

func headerDeadline(from, until time.Time, timeout time.Duration) time.Time {
	if d := from.Add(timeout); d.Before(until) {
		return d
	}
	return until
}

// setDeadline must not undo a breaking-off.
func (l *lane) setDeadline(ctx context.Context, at time.Time) error {
	if err := l.conn.SetDeadline(at); err != nil {
		return err
	}
	return ctx.Err()
}

func (l *lane) write(fill func(*fasthttp.Request)) error {
	req := l.f.requests.Get().(*fasthttp.Request)
	fill(req)
	w := l.f.host.AcquireWriter(l.conn)
	err := req.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	l.f.host.ReleaseWriter(w)
	req.SetBodyRaw(nil)
	l.f.requests.Put(req)
	return err
}

// read reads the answer: headers first, then the body.
func (l *lane) read(ctx context.Context, until time.Time, x *exchange) (keep bool) {
	waiting := l.f.waiting.Add(1)
	defer l.f.waiting.Add(-1)
	if x.err = l.await(waiting >= l.f.many); x.err != nil {
		x.phase = PhaseSent
		return false
	}
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	r := l.f.host.AcquireReader(l.conn)
	defer func() {
		r.Reset(nil)
		l.f.host.ReleaseReader(r)
	}()
	// On TLS an answer that nobody asked for may have been read from the socket
	// before the request was written, where quiet does not see it.
	_, _ = r.Peek(1) // readHeader says what is wrong
	x.answer.Stray = l.counted.early()
	from, err := readHeader(resp, r, l.conn)
	if err != nil {
		x.phase, x.err = PhaseSent, err
		return false
	}
	x.answer.Status = resp.StatusCode()
	x.answer.Header = l.f.header(resp)
	x.phase = PhaseDone
	if x.answer.Status == http.StatusSwitchingProtocols {
		x.answer.Complete = true
		return false
	}
	length := resp.Header.ContentLength()
	if length < 0 || from.Buffered() < length {
		x.err = l.setDeadline(ctx, until)
	}
	if x.err == nil {
		x.answer.Body, x.err = fastBody(resp, from)
	}
	if x.answer.Complete = x.err == nil; !x.answer.Complete {
		x.phase = PhaseCut
	}
	const untilTheEnd = -2
	return x.answer.Complete && !resp.ConnectionClose() && length != untilTheEnd && from == r && r.Buffered() == 0
}

// manyWaiting is how many requests wait for their answers before buffers for
// these are taken only when the answers come. Below, the memory is not worth
// one more system call for each.
const manyWaiting = 512

// await waits for the first byte of the answer, if many requests do.
func (l *lane) await(many bool) error {
	if !many || l.f.host.IsTLS { // TLS keeps buffers of its own
		return nil
	}
	return l.counted.readable()
}

// maxInterim bounds the 1xx answers before the answer.
const maxInterim = 16

var (
	errNoHTTP   = errors.New("the answer is not HTTP/1")
	errNoStatus = errors.New("the answer's status is not a number from 100 to 999")
)

// readHeader reads the headers of the final answer. Headers that do not fit
// into the connection's small buffer are read into a larger one, which is then
// where the body is.
func readHeader(resp *fasthttp.Response, r *bufio.Reader, conn io.Reader) (from *bufio.Reader, err error) {
	resp.Header.SetNoDefaultContentType(true)
	for range maxInterim {
		if err := checkStatusLine(r); err != nil {
			return r, err
		}
		err := resp.Header.Read(r)
		var small *fasthttp.ErrSmallBuffer
		if errors.As(err, &small) && r.Size() < maxHeader {
			begun, _ := r.Peek(r.Buffered())
			r = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(begun)), conn), maxHeader)
			err = resp.Header.Read(r)
		}
		if err != nil {
			return r, err
		}
		if !bytes.HasPrefix(resp.Header.Protocol(), []byte("HTTP/1.")) {
			return r, errNoHTTP
		}
		if s := resp.StatusCode(); s >= 200 || s == http.StatusSwitchingProtocols {
			return r, nil
		}
	}
	return r, errors.New("too many interim answers")
}

// checkStatusLine finds what fasthttp would take for status 200: a status of 0.
func checkStatusLine(r *bufio.Reader) error {
	line, err := r.Peek(len("HTTP/1.1 200 "))
	if err != nil {
		return nil // fasthttp says what is wrong
	}
	status := line[len("HTTP/1.1 "):]
	for _, c := range status[:3] {
		if c < '0' || c > '9' {
			return errNoHTTP
		}
	}
	if status[0] == '0' || status[3] > ' ' {
		return errNoStatus
	}
	return nil
}

// fastBody reads the body of an answer as readBody does.
func fastBody(resp *fasthttp.Response, r *bufio.Reader) ([]byte, error) {
	if s := resp.StatusCode(); s == http.StatusNoContent || s == http.StatusNotModified {
		return nil, nil
	}
	err := resp.ReadBody(r, answer.MaxBody)
	if err == nil && resp.Header.ContentLength() == -1 {
		err = resp.Header.ReadTrailer(r)
	}
	body := bytes.Clone(resp.Body())
	if errors.Is(err, fasthttp.ErrBodyTooLarge) {
		err = errTooLong
	}
	if err != nil {
		return body[:min(len(body), answer.MaxBody)], err
	}
	return undo(body, string(resp.Header.Peek("Content-Encoding")))
}

// undo undoes a Content-Encoding that was not asked for.
func undo(body []byte, encoding string) ([]byte, error) {
	if encoding == "" {
		return body, nil
	}
	return readBody(&http.Response{StatusCode: http.StatusOK, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
		Header: http.Header{"Content-Encoding": {encoding}}})
}

// header takes what is asked for of an answer's headers. Nobody changes it: many
// answers of the same second share one.
func (f *fastClient) header(resp *fasthttp.Response) http.Header {
	if f.all {
		h := make(http.Header, 8)
		for name, value := range resp.Header.All() {
			h.Add(string(name), strings.TrimSpace(string(value)))
		}
		return h
	}
	date, after, age := resp.Header.Peek("Date"), resp.Header.Peek("Retry-After"), resp.Header.Peek("Age")
	kind, server := resp.Header.ContentType(), resp.Header.Server()
	plain := len(after) == 0 && len(age) == 0
	if last := f.dated.Load(); plain && last != nil && string(date) == last.date && string(kind) == last.kind && string(server) == last.server {
		return last.header
	}
	h := make(http.Header, 5)
	for name, value := range map[string][]byte{"Date": date, "Retry-After": after, "Age": age, "Content-Type": kind, "Server": server} {
		if len(value) > 0 {
			h.Set(name, strings.TrimSpace(string(value)))
		}
	}
	if plain {
		f.dated.Store(&dated{date: string(date), kind: string(kind), server: string(server), header: h})
	}
	return h
}

// dated is the header of an answer that tells nothing but these.
type dated struct {
	date, kind, server string
	header             http.Header
}

// fastError gives an error the form that the reasons are read from.
func fastError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded):
		return ctx.Err()
	case errors.Is(err, fasthttp.ErrTimeout), errors.Is(err, fasthttp.ErrDialTimeout):
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", os.ErrDeadlineExceeded, err)
	default:
		return err
	}
}
