package console

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/uploads"
	"orderpost/internal/fleet"
	"orderpost/internal/order/schema"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/platform/livefile"
	"orderpost/internal/queue"
)

// The server's limits.
const (
	headerTimeout = 10 * time.Second
	stopTimeout   = 5 * time.Second
	maxHeader     = 32 << 10
	maxForm       = 1 << 20 // of a form without a file
)

// Options are what a console needs. Queue and Announce are required.
type Options struct {
	Config
	// Queue is the broker's. Its requests must end with their context.
	Queue *queue.Queue
	// Viewers is the broker's, too, with a user that cannot write. Whoever may only
	// look is served by it. nil = Queue.
	Viewers *queue.Queue
	Version string
	// Starter is the name of the person who starts the console, for whoever logs in
	// by the link.
	Starter string
	// DataDir is the folder for uploaded files; empty = the console takes none.
	DataDir string
	// Schema is what the orders of uploaded files must fulfil; nil = none.
	Schema *schema.Schema
	// Announce receives lines for whoever started the console: its address, and
	// one-time links, which are secrets.
	Announce func(line string)
	Log      zerolog.Logger

	now      func() time.Time // nil = the clock; a test sets it
	bodyTime time.Duration    // 0 = bodyTime; a test shortens it
}

// Server serves the console. The caller must call Stop.
type Server struct {
	cfg      Config
	queue    *queue.Queue
	viewers  *queue.Queue
	fleet    *fleet.Control
	jobs     *jobs.Jobs
	version  string
	starter  string
	announce func(string)
	log      zerolog.Logger
	now      func() time.Time // by which logins end and previews become old

	bodyTime time.Duration // how long a form may take to arrive

	proxies  []netip.Prefix
	groups   map[string]Rights
	users    *userFile
	sessions *sessions
	attempts *attempts
	link     loginLink
	conns    *connLimiter
	atOnce   requestLimiter
	watch    *watch

	batches *batches
	room    roomWatch
	// desk is nil if the console takes no uploads. noUploads says why.
	desk      *uploads.Desk
	noUploads string

	url    string
	server *http.Server
	stop   context.CancelFunc
	work   sync.WaitGroup
}

// Listen starts a console. The error wraps ErrConfig if a changed setting can fix
// it.
func Listen(ctx context.Context, o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	proxies, _ := o.proxies() // Validate has read them
	groups, _ := o.groups()
	s := &Server{cfg: o.Config, queue: o.Queue, viewers: cmp.Or(o.Viewers, o.Queue), fleet: fleet.New(o.Queue), version: o.Version, starter: cmp.Or(o.Starter, "the local user"), announce: o.Announce, log: o.Log, now: o.now, bodyTime: cmp.Or(o.bodyTime, bodyTime),
		proxies: proxies, groups: groups, sessions: newSessions(sessionTime, o.IdleTime), attempts: newAttempts()}
	if s.now == nil {
		s.now = time.Now
	}
	s.sessions.now = s.now
	var err error
	if s.users, err = openUsers(o.Users, s.log); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if s.users.shared() {
		s.log.Warn().Str("file", o.Users).Msg("the group of the file of users may write it, and so may let people in; run chmod g-w on it unless that is meant")
	}
	s.jobs = jobs.NewJobs(ctx)
	s.watch, s.batches = newWatch(s.queue, s.fleet, s.log), newBatches(s.queue, s.log)
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Config.Listen)
	if err != nil {
		return nil, fmt.Errorf("ORDERPOST_CONSOLE_LISTEN: %w", err)
	}
	s.url = "http://" + l.Addr().String()
	s.conns = &connLimiter{Listener: l, unbounded: s.isProxy, conns: make(byParty[*conn])}
	l = s.conns
	if o.TLSCert != "" {
		cert, err := livefile.OpenCertificate("ORDERPOST_CONSOLE_TLS_CERT_FILE", o.TLSCert, o.TLSKey, s.log)
		if err != nil {
			_ = l.Close()
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		l = tls.NewListener(l, &tls.Config{GetCertificate: cert.Get, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
		s.url = "https://" + strings.TrimPrefix(s.url, "http://")
	}
	s.server = &http.Server{Handler: s.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: o.KeepAlive, MaxHeaderBytes: maxHeader,
		ConnContext: s.conns.remember, ErrorLog: log.New(warnings{s.log}, "", 0)}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	s.server.BaseContext = func(net.Listener) context.Context { return run }
	s.openUploads(o.DataDir, o.Schema)
	s.work.Go(func() { s.watch.run(run) })
	s.work.Go(func() { s.watch.letters.run(run, s.watch.watched) })
	s.work.Go(func() { s.batches.run(run) })
	s.work.Go(func() {
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error().Err(err).Msg("the console's pages are no longer served")
		}
	})
	s.announce("Console: " + s.url)
	s.announceLink()
	return s, nil
}

// ErrConfig is wrapped by errors that a changed setting can fix.
var ErrConfig = errors.New("configuration")

// URL returns the console's address with its actual port.
func (s *Server) URL() string { return s.url }

// Stop lets requests in flight finish and stops the console.
func (s *Server) Stop() {
	s.jobs.Close() // streams of progress end with their jobs
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	s.stop()
	s.work.Wait()
	if s.desk != nil {
		s.desk.Close()
		_ = s.desk.Store().Close()
	}
}

// openUploads opens the folder of uploaded files. Without it the console shows
// everything and takes no files.
func (s *Server) openUploads(dir string, schema *schema.Schema) {
	if dir == "" {
		s.noUploads = "it has no data folder (ORDERPOST_DATA_DIR)"
		return
	}
	total := s.cfg.UploadTotal << 20
	store, err := uploads.Open(uploads.Config{Dir: dir, MaxFile: min(maxUpload, total), MaxTotal: total, Retention: uploadRetention})
	if err != nil {
		s.log.Warn().Err(err).Msg("the console takes no uploads")
		s.noUploads = err.Error()
		return
	}
	for _, err := range store.Unreadable() {
		s.log.Warn().Err(err).Msg("an uploaded file was left alone")
	}
	s.desk = uploads.NewDesk(store, s.queue, s.jobs, uploads.Journaled(s.journal(), func(act *journal.Act, end error) { _ = s.unwritten(act, end) }))
	s.desk.CheckBy(schema)
}

// warnings passes what net/http complains about to the log.
type warnings struct{ log zerolog.Logger }

// Write implements io.Writer.
func (w warnings) Write(text []byte) (int, error) {
	w.log.Debug().Msg(strings.TrimSpace(string(text)))
	return len(text), nil
}
