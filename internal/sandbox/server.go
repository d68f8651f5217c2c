package sandbox

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/time/rate"
)

// Server is the API with its ledger. Create one with [New]. It is safe for concurrent
// use.
type Server struct {
	config    Config
	log       zerolog.Logger
	startedAt time.Time

	changing sync.Mutex // held while settings change
	settings atomic.Pointer[Settings]
	limiter  atomic.Pointer[rate.Limiter] // nil where there is no limit

	keys    *keyring
	replays replays
	book    *book
	tallies tallies
	trail   *trail
	admin   *http.ServeMux

	listening listening
	closed    chan struct{}
	closeOnce sync.Once
}

// New returns a server that does not listen yet. Call Start, or pass Handler to a
// server of your own. Its error joins all mistakes in the configuration.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	cfg = cfg.withDefaults()
	s := &Server{
		config:    cfg,
		log:       cfg.Logger,
		startedAt: cfg.Now(),
		keys:      newKeyring(cfg.Keys),
		book:      newBook(),
		trail:     newTrail(cfg.Trail),
		closed:    make(chan struct{}),
	}
	s.config.Keys = nil // they live in the keyring
	if cfg.TLS {
		var err error
		if s.listening.identity, err = newIdentity(cfg.Hosts...); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	s.admin = s.adminMux()
	s.adopt(cfg.Settings)
	return s, nil
}

// Handler returns the handler of the API and the admin endpoints.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Settings returns the current settings.
func (s *Server) Settings() Settings { return *s.settings.Load() }

// Update changes settings while the server runs. Requests in flight keep the old ones.
// If the new settings are invalid, Update returns an error and changes nothing.
func (s *Server) Update(change func(*Settings)) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	next := s.Settings()
	change(&next)
	return s.apply(next)
}

// apply applies settings. The caller holds changing.
func (s *Server) apply(next Settings) error {
	next = next.withDefaults()
	if err := next.Validate(); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if err := s.listening.apply(next.Down); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	s.adopt(next)
	s.log.Info().Stringer("down", next.Down).Stringer("manner", next.Manner).Msg("settings changed")
	return nil
}

// adopt stores the settings. A new rate limit starts with a full bucket. Any other
// change keeps the bucket.
func (s *Server) adopt(next Settings) {
	old := s.settings.Load()
	if old == nil || old.Rate != next.Rate || old.Burst != next.Burst {
		s.limiter.Store(newLimiter(next))
	}
	s.settings.Store(&next)
}

func newLimiter(s Settings) *rate.Limiter {
	if s.Rate == 0 {
		return nil
	}
	burst := s.Burst
	if burst == 0 {
		burst = max(1, int(s.Rate))
	}
	return rate.NewLimiter(rate.Limit(s.Rate), burst)
}

// AddKey adds a key pair or replaces the secret of a key. It refuses more than
// [MaxKeys] keys.
func (s *Server) AddKey(key, secret string) error {
	if err := s.keys.add(key, secret); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	s.log.Info().Str("key", maskKey(key)).Msg("key added")
	return nil
}

// RevokeKey removes a key and reports whether it existed.
func (s *Server) RevokeKey(key string) bool {
	known := s.keys.revoke(key)
	if known {
		s.log.Info().Str("key", maskKey(key)).Msg("key revoked")
	}
	return known
}
