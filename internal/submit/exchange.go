package submit

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"

	"orderpost/internal/submit/answer"
)

// The paths of the API below its base URL (api-contract, section 4).
const (
	orderPath   = "/v1/order/create"
	accountPath = "/v1/account"
)

// exchange is one request and what came of it.
type exchange struct {
	answer answer.Answer
	phase  Phase
	err    error     // why there is no answer, or only a part of one
	sent   time.Time // when the request was handed to the transport
	ended  time.Time // when the answer, or the failure, was there
	reused bool
}

// client makes requests. It alone touches HTTP.
type client struct {
	transport       http.RoundTripper
	orders, account *url.URL
	agent           []string
	timeout         time.Duration
	fast            *fastClient // posts orders, if not nil
	// own: the connection of a request is its own (HTTP/1 in clear, over our
	// transport), so that counting its bytes is enough.
	own bool
	// ownNumbers: by a rule, the API has numbers of its own under order_no, so
	// another one is no reason to close a connection.
	ownNumbers bool
}

func newClient(rt http.RoundTripper, base, agent string, timeout time.Duration) (*client, error) {
	orders, err := url.Parse(base + orderPath)
	if err != nil {
		return nil, err
	}
	account, err := url.Parse(base + accountPath)
	if err != nil {
		return nil, err
	}
	_, ours := rt.(*http.Transport)
	return &client{transport: rt, orders: orders, account: account, agent: []string{agent}, timeout: timeout,
		own: ours && orders.Scheme == "http"}, nil
}

var jsonType = []string{"application/json"}

// post sends one signed order, at most once. If reusable, nobody reads body any
// more when post has returned.
//
// An answer that names another order, or that was there before the request, ends
// its connection: what else lies on it may answer other requests, too.
func (c *client) post(ctx context.Context, orderNo string, body []byte, key, signature, traceparent string) (x exchange, reusable bool) {
	if c.fast != nil {
		return c.fast.post(ctx, orderNo, body, key, signature, traceparent), true
	}
	reusable = true
	for range maxShut {
		var free bool
		x, free = c.postOnce(ctx, orderNo, body, key, signature, traceparent)
		reusable = reusable && free
		if x.phase != PhaseSend || !errors.Is(x.err, errShut) {
			break
		}
	}
	return x, reusable
}

// maxShut is how many connections that we have closed ourselves net/http may
// hand out for one request before it notices. Nothing is written to them.
const maxShut = 4

func (c *client) postOnce(ctx context.Context, orderNo string, body []byte, key, signature, traceparent string) (x exchange, reusable bool) {
	h := http.Header{
		"Accept":       jsonType,
		"Content-Type": jsonType,
		"User-Agent":   c.agent,
		"X-Api-Key":    {key},
		"X-Signature":  {signature},
	}
	if traceparent != "" {
		h["Traceparent"] = []string{traceparent}
	}
	req := &http.Request{Method: http.MethodPost, URL: c.orders, Host: c.orders.Host, Header: h, ContentLength: int64(len(body))}
	w := &wire{own: c.own}
	if c.own {
		// A plain reader lets the transport send headers and body in one write.
		req.Body = io.NopCloser(bytes.NewReader(body))
		x = c.do(ctx, req, w)
		c.examine(&x, w, orderNo)
		return x, w.wrote.Load()
	}
	w.body = &onceBody{data: body}
	req.Body = w.body
	x = c.do(ctx, req, w)
	c.examine(&x, w, orderNo)
	return x, true
}

func (c *client) examine(x *exchange, w *wire, orderNo string) {
	x.answer.Examine(orderNo)
	if x.answer.Stray || !c.ownNumbers && x.answer.AboutAnother(x.answer.Status < 300) {
		w.shut()
	}
}

// get reads the account: with the key alone, no signature, no body.
func (c *client) get(ctx context.Context, key string) exchange {
	h := http.Header{"Accept": jsonType, "User-Agent": c.agent, "X-Api-Key": {key}}
	return c.do(ctx, &http.Request{Method: http.MethodGet, URL: c.account, Host: c.account.Host, Header: h}, &wire{own: c.own})
}

// do makes one round trip. net/http repeats no request with a body that it
// cannot rewind and has begun to read; so what is known of the last connection
// is known of the request (doc.go, "Was anything sent?").
func (c *client) do(ctx context.Context, req *http.Request, w *wire) exchange {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, w.trace())
	x := exchange{sent: time.Now()}
	resp, err := c.transport.RoundTrip(req.WithContext(ctx))
	x.phase, x.reused = w.end()
	if err != nil {
		x.ended, x.err = time.Now(), err
		return x
	}
	x.answer = answer.Answer{Status: resp.StatusCode, Header: resp.Header}
	x.answer.Body, x.err = readBody(resp)
	x.answer.Complete = x.err == nil
	x.answer.Stray = w.isStray()
	x.ended, x.phase = time.Now(), PhaseDone
	if !x.answer.Complete {
		x.phase = PhaseCut
	}
	return x
}

var (
	errTooLong  = errors.New("answer is longer than 256 KiB")
	errEncoding = errors.New("answer has a Content-Encoding that was not asked for")
)

// readBody reads at most maxAnswer bytes, undone from gzip. What is left over
// is not read: closing drops the connection.
func readBody(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil, nil // its "body" is the connection itself
	}
	raw := io.LimitReader(resp.Body, answer.MaxBody+1)
	switch strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))) {
	case "", "identity":
		return readBounded(raw, resp.ContentLength)
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(raw)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil, nil // an empty body
			}
			return nil, err
		}
		return readBounded(io.LimitReader(z, answer.MaxBody+1), -1)
	default:
		body, _ := readBounded(raw, resp.ContentLength)
		return body, errEncoding
	}
}

// readBounded reads all; with an error it gives what came before it.
func readBounded(r io.Reader, length int64) ([]byte, error) {
	var buf bytes.Buffer
	if length > 0 && length <= answer.MaxBody {
		buf.Grow(int(length) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(r)
	if buf.Len() > answer.MaxBody {
		buf.Truncate(answer.MaxBody)
		err = errTooLong
	}
	return buf.Bytes(), err
}
