package submit

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/gate"
)

// Deps are what a Submitter needs from outside.
type Deps struct {
	Keys KeySource
	Log  zerolog.Logger
	// Watch is told of attempts and of the gate; may be nil.
	Watch Observer
	// Trace follows attempts; may be nil.
	Trace Tracer
	// Transport stands in for our own client; nil but in tests.
	Transport http.RoundTripper
}

// Submitter takes orders to a verdict. All its methods may be called from any
// goroutine.
type Submitter struct {
	cfg    Config
	base   string // for messages
	log    zerolog.Logger
	watch  Observer
	trace  Tracer
	client *client
	rules  *answer.Rules
	clock  *clock
	gate   *gate.Gate
	jury   *jury
	// evidence is what acceptances have looked like so far.
	evidence *answer.Evidence
	// throttles tell one order's throttles from the pool's.
	throttles throttles
	keys      *keyring

	accusing sync.Mutex // one refusal is counted at a time, gate and jury together

	stop    context.CancelFunc
	tending sync.WaitGroup
}

// New checks the settings, loads rules and keys, and starts to look after the
// gate. Nothing is sent before the first Submit or Preflight. Close must be
// called.
func New(cfg Config, deps Deps) (*Submitter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	base, err := cfg.baseURL()
	if err != nil {
		return nil, err
	}
	s := &Submitter{cfg: cfg, base: base.String(), log: deps.Log, watch: deps.Watch, trace: deps.Trace,
		evidence: answer.NewEvidence(deps.Log)}
	if s.watch == nil {
		s.watch = noObserver{}
	}
	if cfg.Rules != "" {
		if s.rules, err = answer.LoadRules(cfg.Rules); err != nil {
			return nil, err
		}
	}
	if s.keys, err = newKeyring(deps.Keys, deps.Log); err != nil {
		return nil, err
	}
	if err := s.connect(deps.Transport); err != nil {
		return nil, err
	}
	s.clock = newClock(cfg.Clock, cfg.ClockWarn, deps.Log)
	s.jury = newJury(cfg)
	s.gate = gate.New(cfg.gate(), deps.Log, gate.Hooks{Changed: func(now gate.State) { s.watch.GateChanged(now) }, Resumed: s.jury.vouch})
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.tending.Go(func() { s.tend(ctx) })
	return s, nil
}

func (s *Submitter) connect(rt http.RoundTripper) (err error) {
	if s.client, err = newClient(s.cfg, s.base); err != nil {
		return err
	}
	s.client.ownNumbers = s.rules.AllowsOtherOrderNo()
	if rt != nil {
		s.client.standIn = &standIn{rt}
	}
	return nil
}

// Gate is the one place that every attempt passes.
func (s *Submitter) Gate() *gate.Gate { return s.gate }

// Clock is what is known of the API's clock.
func (s *Submitter) Clock() ClockEstimate { return s.clock.estimate() }

// Notes are remarks for people about how answers are understood.
func (s *Submitter) Notes() []string { return s.evidence.Notes() }

// Leave is for a worker that is about to stop: orders that wait, for the gate
// or for their next attempt, end with EndHandBack, so that another worker takes
// them at once. Attempts that are under way are not broken off. It may be called
// more than once, and cannot be taken back.
func (s *Submitter) Leave() { s.gate.Drain() }

// Close ends all waits at the gate and the looking after it. Visits under way
// end with EndHandBack at their next step; it does not wait for them. It may be
// called more than once.
func (s *Submitter) Close() {
	s.stop()
	s.tending.Wait()
	s.gate.Close()
	s.jury.close()
	s.client.close()
}

// tend moves the gate's blocks on when their time comes, probes the account
// for them, and reads the keys again.
func (s *Submitter) tend(ctx context.Context) {
	var reload <-chan time.Time
	if s.cfg.KeyReload > 0 {
		t := time.NewTicker(s.cfg.KeyReload)
		defer t.Stop()
		reload = t.C
	}
	due := time.NewTimer(0)
	defer due.Stop()
	for ctx.Err() == nil {
		changed := s.gate.Changed()
		next, probe := s.gate.Tick()
		if probe {
			s.probe(ctx)
			continue
		}
		if due.Stop(); !next.IsZero() {
			due.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due.C:
		case <-reload:
			if s.keys.reload() {
				s.gate.KeysChanged()
			}
		}
	}
}

// clean removes API keys from text that is recorded or logged.
func (s *Submitter) clean(text string) string { return s.keys.scrub.Load().clean(text) }

// honoured bounds a Retry-After.
func (s *Submitter) honoured(d time.Duration) time.Duration { return min(d, s.cfg.RetryDelayMax) }
