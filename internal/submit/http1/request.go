package http1

import (
	"errors"
	"net/url"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
)

// Order is one signed order. A key, signature or traceparent with a control character is
// not sent.
type Order struct {
	No          string // its order_no, which the answer is compared with
	Body        []byte
	Key         string // X-Api-Key
	Signature   string // X-Signature
	Traceparent string // the W3C trace header; "" = none
}

// request is a request for the API: an order, or GET of the account with a key alone.
type request struct {
	Order
	account bool
}

// heads holds the constant first lines of both kinds of request.
type heads struct{ order, account []byte }

// head returns the constant first lines of the requests to a URL. If a proxy reads the
// requests, they name the whole URL and hold the proxy's credentials.
func (d *dialer) head(method string, u *url.URL, agent string) []byte {
	var h fasthttp.RequestHeader
	h.SetMethod(method)
	h.SetRequestURI(u.RequestURI())
	h.SetHost(u.Host)
	h.Set("Accept", "application/json")
	if method == fasthttp.MethodPost {
		h.SetContentType("application/json")
	}
	h.SetUserAgent(agent)
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
func (h *heads) append(b []byte, r *request) ([]byte, error) {
	if !fitsHeader(r.Key) || !fitsHeader(r.Signature) || !fitsHeader(r.Traceparent) {
		return b, errHeaderValue
	}
	line := func(name, value string) {
		b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
	}
	if r.account {
		b = append(b, h.account...)
		line("X-Api-Key", r.Key)
		return append(b, "\r\n"...), nil
	}
	b = append(b, h.order...)
	line("X-Api-Key", r.Key)
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
