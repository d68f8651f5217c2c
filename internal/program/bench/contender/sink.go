package contender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
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
	warmAt  atomic.Int64
	lastAt  atomic.Int64

	mu       sync.Mutex
	transits []int64
}

// RunSink serves until ctx ends.
func RunSink(ctx context.Context, o SinkOptions) error {
	s := &Sink{o: o}
	server := &fasthttp.Server{Handler: s.handle, NoDefaultServerHeader: true, NoDefaultDate: false,
		Concurrency: 1 << 20, TCPKeepalive: false, ReadBufferSize: 2048, WriteBufferSize: 1024}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", o.Addr)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = ln.Close() })
	if err := server.Serve(ln); err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

var answered = []byte(`{"code":0,"data":{"status":"created"}}`)

func (s *Sink) handle(c *fasthttp.RequestCtx) {
	c.SetContentType("application/json")
	switch string(c.Path()) {
	case "/v1/order/create":
		s.order(c)
	case "/v1/account":
		c.SetBodyString(`{"code":0}`)
	case "/seen":
		s.tell(c)
	default:
		c.SetStatusCode(fasthttp.StatusNotFound)
	}
}

func (s *Sink) order(c *fasthttp.RequestCtx) {
	body := c.PostBody()
	if string(c.Request.Header.Peek("X-Api-Key")) != APIKey || !verify(body, c.Request.Header.Peek("X-Signature")) {
		s.refused.Add(1)
		c.SetStatusCode(fasthttp.StatusForbidden)
		return
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
	c.SetBody(answered)
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

func (s *Sink) tell(c *fasthttp.RequestCtx) {
	seen := Seen{Orders: s.orders.Load(), Refused: s.refused.Load(), WarmAt: s.warmAt.Load(), LastAt: s.lastAt.Load()}
	if c.QueryArgs().Has("transits") {
		s.mu.Lock()
		seen.Transits = append(seen.Transits, s.transits...)
		s.mu.Unlock()
	}
	body, err := json.Marshal(seen)
	if err != nil {
		c.SetStatusCode(fasthttp.StatusInternalServerError)
		return
	}
	c.SetBody(body)
}
