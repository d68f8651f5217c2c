package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// closeWithin is how long Close waits for requests in flight. Close cuts their
// injected delays, so only a connection that was opened and never used takes longer.
const closeWithin = time.Second

// listening holds the sockets of a server. The zero value is a server that was not
// started.
type listening struct {
	mu    sync.Mutex
	main  *socket // nil while not listening
	admin *socket
	// at is the address of main, also while it refuses connections. It is empty before
	// Start and after Close.
	at      string
	handler http.Handler
	// identity is shown by the main socket; nil: it is in clear.
	identity *identity
	serving  sync.WaitGroup
}

// socket serves one address.
type socket struct {
	*http.Server
	listener net.Listener
}

// shut closes the socket and its connections. http.Server.Close alone would miss a
// listener that Serve has not registered yet.
func (s *socket) shut() {
	s.listener.Close() //nolint:errcheck // it was open, and nobody minds if not
	s.Close()          //nolint:errcheck // likewise
}

// Start listens on addr and serves until Close. It returns the base URL. The address
// "127.0.0.1:0" means any free port. With TLS the
// admin address stays in clear.
func (s *Server) Start(addr string) (url string, err error) {
	l := &s.listening
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-s.closed:
		return "", errors.New("sandbox: it is closed")
	default:
	}
	if l.at != "" {
		return "", errors.New("sandbox: it was started before")
	}
	l.handler = s.Handler()
	if err := l.open(addr); err != nil {
		return "", fmt.Errorf("sandbox: %w", err)
	}
	if s.Settings().Down == RefuseAll {
		l.refuse()
	}
	if s.config.AdminAddr != "" {
		if l.admin, err = l.serve(s.config.AdminAddr, s.admin, nil); err != nil {
			l.refuse()
			l.serving.Wait()
			l.at = ""
			return "", fmt.Errorf("sandbox: admin: %w", err)
		}
	}
	s.log.Debug().Str("address", l.at).Msg("listening")
	if l.identity != nil {
		return "https://" + l.at, nil
	}
	return "http://" + l.at, nil
}

// Close stops listening, cuts injected delays and waits up to a second for requests in
// flight. It then closes the remaining connections. Close may be called twice and
// before Start. The ledger stays readable.
func (s *Server) Close() error {
	s.closeOnce.Do(func() { close(s.closed) })
	l := &s.listening
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	for _, srv := range []*socket{l.main, l.admin} {
		if srv == nil {
			continue
		}
		srv.Shutdown(ctx) //nolint:errcheck // Close follows
		srv.shut()
	}
	l.main, l.admin, l.at = nil, nil, ""
	l.serving.Wait()
	return nil
}

// apply opens or closes the main socket according to the kind of outage.
func (l *listening) apply(d Down) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.at == "":
		// Not started, closed, or served by another listener.
	case d == RefuseAll:
		l.refuse()
	case l.main == nil:
		return l.open(l.at)
	}
	return nil
}

// open listens on addr. The caller holds mu.
func (l *listening) open(addr string) (err error) {
	if l.main, err = l.serve(addr, l.handler, l.identity); err != nil {
		return err
	}
	l.at = l.main.listener.Addr().String()
	return nil
}

// refuse makes the kernel refuse connections. The caller holds mu.
func (l *listening) refuse() {
	if l.main != nil {
		l.main.shut()
		l.main = nil
	}
}

func (l *listening) serve(addr string, h http.Handler, i *identity) (*socket, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	if i != nil {
		listener = i.secured(listener)
	}
	srv := &socket{listener: listener, Server: &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0), // clients that hang up are expected
	}}
	l.serving.Go(func() { srv.Serve(listener) }) //nolint:errcheck // it returns when the socket is shut
	return srv, nil
}
