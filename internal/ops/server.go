package ops

import (
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"
)

// The server's limits. Clients are near and requests are small. pprof extends
// writeTimeout by the duration of a profile.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	scrapeTimeout = 10 * time.Second
	writeTimeout  = 15 * time.Second
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 2 * time.Second
	maxHeader     = 16 << 10
	// maxScrapes is the most concurrent scrapes.
	maxScrapes = 4
)

// ServerOptions configure a server. Addr, Metrics and State are required.
type ServerOptions struct {
	// Addr is host:port. Port 0 means any free port.
	Addr    string
	Metrics prometheus.Gatherer
	// State returns the current state. It is called for every /readyz.
	State func() Snapshot
	// PProf serves the profiles of net/http/pprof below /debug/pprof/. They reveal
	// internals of the process, so do not enable it on a public address.
	PProf bool
	Log   zerolog.Logger
}

// Server serves /metrics, /livez and /readyz.
type Server struct {
	state  func() Snapshot
	url    string
	server *http.Server
	done   chan struct{}
}

// Listen starts a server. It returns an error if it cannot listen on the address. The
// caller must call Stop.
func Listen(ctx context.Context, o ServerOptions) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, err
	}
	s := &Server{state: o.State, url: "http://" + l.Addr().String(), done: make(chan struct{})}
	s.server = &http.Server{
		Handler:           s.handler(o),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: warnings(o.Log, "metrics and health server"),
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error().Err(err).Msg("metrics and health are no longer served")
		}
	}()
	return s, nil
}

// URL returns the server's base URL with its actual port.
func (s *Server) URL() string { return s.url }

// Alive asks the server's own /livez, as anybody else would.
func (s *Server) Alive(ctx context.Context) error {
	return Probe(ctx, strings.TrimPrefix(s.url, "http://"))
}

// Stop waits up to two seconds for requests in flight and stops the server. It may be
// called more than once.
func (s *Server) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close() // a profile is still running
	}
	<-s.done
}

func (s *Server) handler(o ServerOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{
		ErrorLog: warnings(o.Log, "metrics cannot be served in full"), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout,
		EnableOpenMetrics: true, // the one text format with exemplars
	}))
	mux.HandleFunc("GET /livez", livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	if o.PProf {
		// No cmdline: arguments may contain secrets.
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", http.NotFound)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	}
	return mux
}

// warnings passes the errors of a library to the log, as details of a message.
func warnings(to zerolog.Logger, message string) *log.Logger {
	return log.New(&writer{to, message}, "", 0)
}

type writer struct {
	log     zerolog.Logger
	message string
}

func (w *writer) Write(line []byte) (int, error) {
	w.log.Warn().Str("detail", strings.TrimSpace(string(line))).Msg(w.message)
	return len(line), nil
}
