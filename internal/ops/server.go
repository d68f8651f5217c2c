package ops

import (
	"context"
	"errors"
	"fmt"
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

// The server's timeouts: whoever asks is near and asks for little. Profiles
// that take longer extend writeTimeout by their own duration.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	scrapeTimeout = 10 * time.Second
	writeTimeout  = 15 * time.Second
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 2 * time.Second
	maxHeader     = 16 << 10
	// maxScrapes bounds the scrapes at the same time.
	maxScrapes = 4
)

// ServerOptions are what a server is made with. Addr, Metrics and State are
// required.
type ServerOptions struct {
	// Addr is host:port; port 0 takes a free one.
	Addr    string
	Metrics prometheus.Gatherer
	// State tells what the worker looks like now; asked at every /readyz.
	State func() Snapshot
	// PProf serves the profiles of net/http/pprof below /debug/pprof/. They
	// show much of the process: not for an address that strangers reach.
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

// Listen starts a server. The error is that of the address: taken, or not this
// machine's. Stop must be called.
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
		ErrorLog: log.New(warnings{o.Log}, "", 0),
	}
	go func() {
		defer close(s.done)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Log.Error().Err(err).Msg("metrics and health are no longer served")
		}
	}()
	return s, nil
}

// URL is the server's base URL, with the port that it really has.
func (s *Server) URL() string { return s.url }

// Alive asks the server's own /livez, as anybody else would.
func (s *Server) Alive(ctx context.Context) error {
	return Probe(ctx, strings.TrimPrefix(s.url, "http://"))
}

// Stop answers what is being asked, for two seconds at most, and ends. It may
// be called more than once.
func (s *Server) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close() // somebody's profile is still running
	}
	<-s.done
}

func (s *Server) handler(o ServerOptions) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{
		ErrorLog: scrapeErrors{o.Log}, ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout,
	}))
	mux.HandleFunc("GET /livez", livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	if o.PProf {
		// Without cmdline: nothing needs it, and arguments may hold secrets.
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", http.NotFound)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	}
	return mux
}

// warnings logs what net/http has to say.
type warnings struct{ log zerolog.Logger }

func (w warnings) Write(line []byte) (int, error) {
	w.log.Warn().Str("detail", strings.TrimSpace(string(line))).Msg("metrics and health server")
	return len(line), nil
}

// scrapeErrors logs what promhttp has to say.
type scrapeErrors struct{ log zerolog.Logger }

func (e scrapeErrors) Println(v ...any) {
	e.log.Warn().Str("detail", strings.TrimSpace(fmt.Sprintln(v...))).Msg("metrics cannot be served in full")
}
