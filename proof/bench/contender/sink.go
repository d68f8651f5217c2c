package contender

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/errgroup"
)

// SinkOptions say how the API behaves.
type SinkOptions struct {
	// Addr is host:port to listen on.
	Addr string
	// TLSAddr is host:port to listen on with TLS, too, and TLSPair the file of the
	// certificate and its key, in PEM. Empty: in clear alone.
	TLSAddr, TLSPair string
	// Warm is the number of the order from whose arrival rates are measured.
	Warm int64
	// AnswerBytes is the least length of an answer to an order.
	AnswerBytes int
	// Transit: note how long each order was on its way since its publishing.
	Transit bool
	// Delay is how long the API takes for an order.
	Delay time.Duration
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
	all, ctx := errgroup.WithContext(ctx)
	serve := func(addr string, secured *tls.Config) error {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", addr)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = ln.Close() })
		if secured != nil {
			ln = tls.NewListener(ln, secured)
		}
		if err := s.serve(ln); err != nil && ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
	if o.TLSAddr != "" {
		pair, err := tls.LoadX509KeyPair(o.TLSPair, o.TLSPair)
		if err != nil {
			return err
		}
		all.Go(func() error {
			return serve(o.TLSAddr, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
		})
	}
	all.Go(func() error { return serve(o.Addr, nil) })
	return all.Wait()
}

func (s *Sink) serve(ln net.Listener) error {
	server := &fasthttp.Server{Handler: s.handleFast, NoDefaultServerHeader: true, NoDefaultDate: false,
		Concurrency: 1 << 20, TCPKeepalive: false, ReadBufferSize: 2048, WriteBufferSize: 1024}
	return server.Serve(ln)
}

func (s *Sink) handleFast(c *fasthttp.RequestCtx) {
	c.SetContentType("application/json")
	status, body := s.answer(string(c.Path()), c.Request.Header.Peek("X-Api-Key"), c.Request.Header.Peek("X-Signature"), c.PostBody(), c.QueryArgs().Has("transits"))
	c.SetStatusCode(status)
	c.SetBody(body)
}

// shortest is the answer to an order, if none asks for a longer one.
var shortest = []byte(createdBegin + createdEnd)

const createdBegin, createdEnd = `{"code":0,"data":{"status":"created"`, `}}`

// created is an answer of that length, if it is longer than the shortest one. Its id differs
// from order to order, as that of a real API does, so that it cannot be compressed away.
func (s *Sink) created(signature []byte) []byte {
	if room := s.o.AnswerBytes - len(shortest) - len(`,"id":""`); room > 0 {
		return fmt.Appendf(nil, `%s,"id":"%.*s"%s`, createdBegin, room, signature, createdEnd)
	}
	return shortest
}

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
	time.Sleep(s.o.Delay)
	return http.StatusOK, s.created(signature)
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
	seen := Seen{Orders: s.orders.Load(), Refused: s.refused.Load(), WarmAt: s.warmAt.Load(), LastAt: s.lastAt.Load()}
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
