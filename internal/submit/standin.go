package submit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"

	"orderpost/internal/submit/answer"
)

// standIn sends the requests through a test's transport.
type standIn struct{ http.RoundTripper }

// carry sends one request.
func (s *standIn) carry(ctx context.Context, c *client, r *request, x *exchange) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	req, body := s.request(c, r)
	resp, err := s.RoundTrip(req.WithContext(ctx))
	x.phase = PhaseConnect
	if body.seal() {
		x.phase = PhaseSent
	}
	if err != nil {
		x.err = err
		return
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	x.answer = answer.Answer{Status: resp.StatusCode, Header: resp.Header}
	x.answer.Body, x.err = readBounded(resp.Body)
	if x.err == nil {
		x.answer.Body, x.err = undo(x.answer.Body, resp.Header.Get("Content-Encoding"))
	}
	x.phase, x.answer.Complete = PhaseDone, x.err == nil
	if !x.answer.Complete {
		x.phase = PhaseCut
	}
	x.answer.Examine(r.orderNo)
}

func (s *standIn) request(c *client, r *request) (*http.Request, *onceBody) {
	u, body := c.orders, &onceBody{data: r.body}
	h := http.Header{"Accept": {"application/json"}, "User-Agent": {userAgent}, "X-Api-Key": {r.key}}
	if r.account {
		u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path[:len(u.Path)-len(orderPath)] + accountPath}
		return &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: h}, body
	}
	h["Content-Type"], h["X-Signature"] = []string{"application/json"}, []string{r.signature}
	if r.traceparent != "" {
		h["Traceparent"] = []string{r.traceparent}
	}
	return &http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Header: h, Body: body, ContentLength: int64(len(r.body))}, body
}

var errSealed = errors.New("request is over")

// onceBody is a request body that can be read once, and not after seal. If nobody read
// it before, the request was not sent.
type onceBody struct {
	mu     sync.Mutex
	data   []byte
	off    int
	taken  bool
	sealed bool
}

// Read implements io.Reader.
func (b *onceBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sealed {
		return 0, errSealed
	}
	if b.off == len(b.data) {
		return 0, io.EOF
	}
	b.taken = true
	n := copy(p, b.data[b.off:])
	b.off += n
	return n, nil
}

// Close implements io.Closer.
func (b *onceBody) Close() error { return nil }

// seal ends reading and reports whether anything was read. The caller may then use the
// data for something else.
func (b *onceBody) seal() (taken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sealed, b.data, b.off = true, nil, 0
	return b.taken
}
