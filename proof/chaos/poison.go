package chaos

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"
)

// poison stands between the workers and the sandbox and answers 503 to every attempt of
// one order. The sandbox draws its own faults for each attempt.
type poison struct {
	server  *http.Server
	orderNo atomic.Pointer[[]byte] // nil = no order is poisoned
}

// newPoison serves on loopback and returns its URL. target is the sandbox's URL.
func newPoison(target string) (*poison, string, error) {
	to, err := url.Parse(target)
	if err != nil {
		return nil, "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	p := &poison{}
	forward := &httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), // workers that give up are no news
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	p.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if no := p.orderNo.Load(); no != nil && bytes.Contains(body, *no) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"error":"internal","message":"this order cannot be processed"}`))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	})}
	go func() { _ = p.server.Serve(l) }()
	return p, "http://" + l.Addr().String(), nil
}

// with poisons an order.
func (p *poison) with(orderNo string) {
	no := []byte(orderNo)
	p.orderNo.Store(&no)
}

func (p *poison) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil {
		return p.server.Close()
	}
	return nil
}
