package contender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// SinkOptions say how the API behaves.
type SinkOptions struct {
	// Addr is host:port to listen on.
	Addr string
	// Cert and Key are files; with them the API speaks https.
	Cert, Key string
	// HTTP2 offers HTTP/2 beside HTTP/1.1, by net/http.
	HTTP2 bool
	// Latency is how long each order takes.
	Latency time.Duration
	// Warm is the number of the order from whose arrival rates are measured.
	Warm int64
	// Transit: note how long each order was on its way since its publishing.
	Transit bool
}

// Seen is what the API saw.
type Seen struct {
	Orders int64 `json:"orders"`
	// Refused requests had no valid signature.
	Refused int64 `json:"refused"`
	// HTTP2 are the orders that came by it.
	HTTP2 int64 `json:"http2"`
	// WarmAt and LastAt are the arrivals of the warm and the last order, in
	// nanoseconds since 1970.
	WarmAt int64 `json:"warm_at"`
	LastAt int64 `json:"last_at"`
	// Transits are the times from publishing to arrival, in nanoseconds, of
	// the orders after the warm one.
	Transits []int64 `json:"transits,omitempty"`
}

// Sink is the API: it verifies the signature of every order and accepts it.
type Sink struct {
	o       SinkOptions
	orders  atomic.Int64
	refused atomic.Int64
	http2   atomic.Int64
	warmAt  atomic.Int64
	lastAt  atomic.Int64

	mu       sync.Mutex
	transits []int64
}

// RunSink serves until ctx ends.
func RunSink(ctx context.Context, o SinkOptions) error {
	s := &Sink{o: o}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", o.Addr)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = ln.Close() })
	if err := s.serve(ln); err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

func (s *Sink) serve(ln net.Listener) error {
	if s.o.HTTP2 {
		server := &http.Server{Handler: http.HandlerFunc(s.handleNet), ErrorLog: log.New(io.Discard, "", 0)}
		return server.ServeTLS(ln, s.o.Cert, s.o.Key)
	}
	server := &fasthttp.Server{Handler: s.handleFast, NoDefaultServerHeader: true, NoDefaultDate: false,
		Concurrency: 1 << 20, TCPKeepalive: false, ReadBufferSize: 2048, WriteBufferSize: 1024}
	if s.o.Cert != "" {
		return server.ServeTLS(ln, s.o.Cert, s.o.Key)
	}
	return server.Serve(ln)
}

func (s *Sink) handleFast(c *fasthttp.RequestCtx) {
	c.SetContentType("application/json")
	status, body := s.answer(string(c.Path()), c.Request.Header.Peek("X-Api-Key"), c.Request.Header.Peek("X-Signature"), c.PostBody(), c.QueryArgs().Has("transits"))
	c.SetStatusCode(status)
	c.SetBody(body)
}

func (s *Sink) handleNet(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.ProtoMajor == 2 && r.URL.Path == orderPath {
		s.http2.Add(1)
	}
	status, answer := s.answer(r.URL.Path, []byte(r.Header.Get("X-Api-Key")), []byte(r.Header.Get("X-Signature")), body, r.URL.Query().Has("transits"))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // the client may be gone
}

var answered = []byte(`{"code":0,"data":{"status":"created"}}`)

func (s *Sink) answer(path string, key, signature, body []byte, transits bool) (status int, answer []byte) {
	switch path {
	case orderPath:
		return s.order(key, signature, body)
	case "/v1/account":
		return http.StatusOK, []byte(`{"code":0}`)
	case "/seen":
		return s.tell(transits)
	default:
		return http.StatusNotFound, nil
	}
}

func (s *Sink) order(key, signature, body []byte) (status int, answer []byte) {
	if string(key) != APIKey || !verify(body, signature) {
		s.refused.Add(1)
		return http.StatusForbidden, nil
	}
	now := time.Now()
	n := s.orders.Add(1)
	if n == s.o.Warm {
		s.warmAt.Store(now.UnixNano())
	}
	s.lastAt.Store(now.UnixNano())
	if s.o.Transit && n > s.o.Warm {
		s.transit(body, now)
	}
	if s.o.Latency > 0 {
		time.Sleep(s.o.Latency)
	}
	return http.StatusOK, answered
}

func (s *Sink) transit(body []byte, now time.Time) {
	_, after, _ := bytes.Cut(body, []byte(sentField))
	digits, _, _ := bytes.Cut(after, []byte(`"`))
	sent, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.transits = append(s.transits, now.UnixNano()-sent)
	s.mu.Unlock()
}

func (s *Sink) tell(transits bool) (status int, answer []byte) {
	seen := Seen{Orders: s.orders.Load(), Refused: s.refused.Load(), HTTP2: s.http2.Load(), WarmAt: s.warmAt.Load(), LastAt: s.lastAt.Load()}
	if transits {
		s.mu.Lock()
		seen.Transits = append(seen.Transits, s.transits...)
		s.mu.Unlock()
	}
	body, err := json.Marshal(seen)
	if err != nil {
		return http.StatusInternalServerError, nil
	}
	return http.StatusOK, body
}
