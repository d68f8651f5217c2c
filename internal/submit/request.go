package submit

import (
	"errors"
	"net/url"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"
)

// request is a request for the API: an order, or GET of the account.
type request struct {
	account                     bool
	orderNo                     string
	body                        []byte
	key, signature, traceparent string
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

// maxKeptBuffer is the largest buffer, in bytes, that is kept for another request.
const maxKeptBuffer = 64 << 10

var requestBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 2048); return &b }}
