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
)

// The paths of the API below its base URL (api-contract, section 4).
const (
	orderPath   = "/v1/order/create"
	accountPath = "/v1/account"
)

// exchange is one request and what came of it.
type exchange struct {
	answer answer
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
	return &client{transport: rt, orders: orders, account: account, agent: []string{agent}, timeout: timeout}, nil
}

var jsonType = []string{"application/json"}

// post sends one signed order, at most once. The body may be reused when post
// has returned.
func (c *client) post(ctx context.Context, body []byte, key, signature, traceparent string) exchange {
	once := &onceBody{data: body}
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
	return c.do(ctx, &http.Request{Method: http.MethodPost, URL: c.orders, Host: c.orders.Host, Header: h,
		Body: once, ContentLength: int64(len(body))}, once)
}

// get reads the account: with the key alone, no signature, no body.
func (c *client) get(ctx context.Context, key string) exchange {
	h := http.Header{"Accept": jsonType, "User-Agent": c.agent, "X-Api-Key": {key}}
	return c.do(ctx, &http.Request{Method: http.MethodGet, URL: c.account, Host: c.account.Host, Header: h}, nil)
}

// do makes one round trip. net/http repeats no request with a body that it
// cannot rewind and has begun to read; so what is known of the last connection
// is known of the request (doc.go, "Was anything sent?").
func (c *client) do(ctx context.Context, req *http.Request, once *onceBody) exchange {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	w := &wire{}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { w.gotConn(i.Conn, i.Reused) },
	})
	x := exchange{sent: time.Now()}
	resp, err := c.transport.RoundTrip(req.WithContext(ctx))
	taken := once != nil && once.seal()
	if err != nil {
		x.ended, x.err = time.Now(), err
		x.phase, x.reused = w.failedAt(taken)
		return x
	}
	_, x.reused = w.failedAt(taken)
	x.answer = answer{status: resp.StatusCode, header: resp.Header}
	x.answer.body, x.err = readBody(resp)
	x.answer.complete = x.err == nil
	x.ended, x.phase = time.Now(), PhaseDone
	if !x.answer.complete {
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
	raw := io.LimitReader(resp.Body, maxAnswer+1)
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
		return readBounded(io.LimitReader(z, maxAnswer+1), -1)
	default:
		body, _ := readBounded(raw, resp.ContentLength)
		return body, errEncoding
	}
}

// readBounded reads all; with an error it gives what came before it.
func readBounded(r io.Reader, length int64) ([]byte, error) {
	var buf bytes.Buffer
	if length > 0 && length <= maxAnswer {
		buf.Grow(int(length) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(r)
	if buf.Len() > maxAnswer {
		buf.Truncate(maxAnswer)
		err = errTooLong
	}
	return buf.Bytes(), err
}
