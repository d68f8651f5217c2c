package submit

import (
	"errors"
	"net/url"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
)

// request is what is sent: an order, or the question for the account.
type request struct {
	account                     bool
	orderNo                     string
	body                        []byte
	key, signature, traceparent string
}

// heads are the first lines of all requests, which never change.
type heads struct{ order, account []byte }

// head writes what all requests to a URL begin with, up to the empty line.
// Through a proxy in clear the request names the whole URL, and who asks.
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

// append writes the request as it goes over the wire.
func (h *heads) append(b []byte, r *request) ([]byte, error) {
	if !fitsHeader(r.key) || !fitsHeader(r.signature) || !fitsHeader(r.traceparent) {
		return b, errHeaderValue
	}
	line := func(name, value string) {
		b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
	}
	if r.account {
		b = append(b, h.account...)
		line("X-Api-Key", r.key)
		return append(b, "\r\n"...), nil
	}
	b = append(b, h.order...)
	line("X-Api-Key", r.key)
	line("X-Signature", r.signature)
	if r.traceparent != "" {
		line("Traceparent", r.traceparent)
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, int64(len(r.body)), 10)
	b = append(b, "\r\n\r\n"...)
	return append(b, r.body...), nil
}

func fitsHeader(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// mostKept is the largest buffer that is kept for another request, in bytes.
const mostKept = 64 << 10

var requestBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 2048); return &b }}
