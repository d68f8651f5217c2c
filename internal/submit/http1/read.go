package http1

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"orderpost/internal/submit/answer"
)

// maxHeader is the largest size of an answer's headers in bytes.
const maxHeader = 64 << 10

// maxInterim is the largest number of 1xx answers before the final one.
const maxInterim = 16

var (
	errNoHTTP   = errors.New("the answer is not HTTP/1.1 (nor 1.0)")
	errBehind   = errors.New("more bytes follow the answer")
	errNoBody   = errors.New("the connection ended before a body")
	errNoStatus = errors.New("the answer's status is not a number from 100 to 999")
)

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// read reads the answer. came is the number of bytes that had been read from the
// socket before the request was sent. read reports whether the connection can be used
// again.
func (c *Client) read(ctx context.Context, conn *conn, came int64, until time.Time, x *Exchange) (keep bool) {
	r := readers.Get().(*bufio.Reader)
	r.Reset(conn.Conn)
	defer func() {
		r.Reset(nil)
		readers.Put(r)
	}()
	resp := fasthttp.AcquireResponse()
	defer fasthttp.ReleaseResponse(resp)
	if _, x.Err = r.Peek(1); x.Err != nil { // fasthttp would hide the error behind EOF
		x.Phase = PhaseSent
		return false
	}
	x.Answer.Stray = conn.socket.read == came
	from, err := readHeader(resp, r, conn.Conn)
	if err != nil {
		x.Phase, x.Err = PhaseSent, err
		return false
	}
	x.Answer.Status = resp.StatusCode()
	x.Answer.Header = c.header(resp)
	x.Phase = PhaseDone
	if x.Answer.Status == http.StatusSwitchingProtocols {
		x.Answer.Complete = true
		return false
	}
	length := resp.Header.ContentLength()
	if length < 0 || from.Buffered() < length {
		x.Err = conn.setDeadline(ctx, until)
	}
	if x.Err == nil {
		x.Answer.Body, x.Err = readBody(resp, from)
	}
	if x.Err == nil {
		x.Err = checkEnd(resp, from, length, x.Answer.Body)
		x.Answer.Stray = x.Answer.Stray || errors.Is(x.Err, errBehind)
	}
	if x.Answer.Complete = x.Err == nil; !x.Answer.Complete {
		x.Phase = PhaseCut
	}
	return x.Answer.Complete && !endsConnection(resp, length) && from == r && r.Buffered() == 0
}

const untilTheEnd = -2 // the ContentLength of a body that the connection's end ends

// checkEnd refuses an answer whose end is in doubt. Of two answers to one request, one is
// another request's. An empty body that nothing but the connection's end ends may have
// been lost with the connection; without one, a 201 would be accepted.
func checkEnd(resp *fasthttp.Response, from *bufio.Reader, length int, body []byte) error {
	behind, _ := from.Peek(from.Buffered())
	switch {
	case len(bytes.Trim(behind, "\r\n")) > 0:
		return errBehind
	case length == untilTheEnd && len(body) == 0 && resp.StatusCode() == http.StatusCreated:
		return errNoBody
	default:
		return nil
	}
}

// endsConnection reports whether the answer is the last one on its connection.
func endsConnection(resp *fasthttp.Response, length int) bool {
	if resp.ConnectionClose() || length == untilTheEnd {
		return true
	}
	// fasthttp recognizes only the exact value close.
	return bytes.Contains(bytes.ToLower(resp.Header.Peek("Connection")), []byte("close"))
}

// readHeader reads the headers of the final answer. If they do not fit into the
// buffer of r, it continues with a larger one. from is the reader that holds the body.
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
		if p := string(resp.Header.Protocol()); p != "HTTP/1.1" && p != "HTTP/1.0" { // fasthttp takes any other one for 1.0, which knows no chunks
			return r, errNoHTTP
		}
		if s := resp.StatusCode(); s >= 200 || s == http.StatusSwitchingProtocols {
			return r, nil
		}
	}
	return r, errors.New("too many interim answers")
}

// checkStatusLine refuses a status line whose status is no number or below 100.
// fasthttp would read status 0 as 200.
func checkStatusLine(r *bufio.Reader) error {
	line, err := r.Peek(len("HTTP/1.1 200 "))
	if err != nil {
		return nil // fasthttp will return this error
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

// readBody reads and decodes the body of an answer, at most [answer.MaxBody] bytes.
// With an error it returns what it read before.
func readBody(resp *fasthttp.Response, r *bufio.Reader) ([]byte, error) {
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

// header returns the headers that are needed: all with Config.AllHeaders, otherwise five,
// and the Location of a redirect.
// Many answers of the same second share the result, so nobody may change it.
func (c *Client) header(resp *fasthttp.Response) http.Header {
	if c.cfg.AllHeaders {
		h := make(http.Header, 8)
		for name, value := range resp.Header.All() {
			h.Add(string(name), strings.TrimSpace(string(value)))
		}
		return h
	}
	date, after, age := resp.Header.Peek("Date"), resp.Header.Peek("Retry-After"), resp.Header.Peek("Age")
	kind, server := resp.Header.ContentType(), resp.Header.Server()
	var location []byte
	if resp.StatusCode()/100 == 3 {
		location = resp.Header.Peek("Location")
	}
	plain := len(after) == 0 && len(age) == 0 && len(location) == 0
	if last := c.cachedHeader.Load(); plain && last != nil && string(date) == last.date && string(kind) == last.kind && string(server) == last.server {
		return last.header
	}
	h := make(http.Header, 5)
	for name, value := range map[string][]byte{"Date": date, "Retry-After": after, "Age": age, "Content-Type": kind, "Server": server, "Location": location} {
		if len(value) > 0 {
			h.Set(name, strings.TrimSpace(string(value)))
		}
	}
	if plain {
		c.cachedHeader.Store(&cachedHeader{date: string(date), kind: string(kind), server: string(server), header: h})
	}
	return h
}

// cachedHeader is the header of an answer that has no other header than these.
type cachedHeader struct {
	date, kind, server string
	header             http.Header
}

var (
	errTooLong  = errors.New("answer is longer than 256 KiB")
	errEncoding = errors.New("answer has a Content-Encoding that was not asked for")
)

// undo decodes gzip, although no Content-Encoding was asked for. It returns at most
// [answer.MaxBody] bytes, with an error what it read before, and an error for other encodings.
func undo(body []byte, encoding string) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
		if len(body) == 0 {
			return nil, nil
		}
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(z, answer.MaxBody+1))
		if len(text) > answer.MaxBody {
			return text[:answer.MaxBody], errTooLong
		}
		return text, err
	default:
		return body, errEncoding
	}
}
