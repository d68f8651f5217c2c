package submit

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/order"
	"orderpost/internal/order/schema"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/gate"
	"orderpost/internal/submit/http1"
)

// Deps holds what a Submitter needs from outside.
type Deps struct {
	Keys KeySource
	Log  zerolog.Logger
	// Schema is what orders must fulfil before their first attempt; nil = none.
	Schema *schema.Schema
	// Watch receives events; nil = none.
	Watch Observer
	// Trace traces attempts; nil = no traces.
	Trace Tracer
	// Sender replaces the HTTP client in tests; nil otherwise.
	Sender Sender
}

// Sender sends requests to the API, as [http1.Client] does.
type Sender interface {
	Post(ctx context.Context, o http1.Order) http1.Exchange
	Get(ctx context.Context, key string) http1.Exchange
	Look(ctx context.Context, key, orderNo, path string) http1.Exchange
}

// Submitter posts orders until they have a verdict. Its methods are safe for
// concurrent use.
type Submitter struct {
	cfg    Config
	base   string // for messages
	log    zerolog.Logger
	watch  Observer
	trace  Tracer
	orders *url.URL // where orders are posted to
	client *http1.Client
	sender Sender // client, or a test's
	judge  answer.Judge
	// rulesNote says why the rules file could not be read again; nil = it could.
	rulesNote atomic.Pointer[string]
	clock     *clock
	gate      *gate.Gate
	refusals  *refusalDetector
	broken    *refusalDetector // of orders that break schema
	fulfilled atomic.Int64     // the last content of the schema's file that an order fulfilled
	// faults finds out whether single orders are at fault.
	faults *faults
	keys   *keyring
	schema *schema.Schema
	looks  *looks

	reporting sync.Mutex // guards reportRefusal, which changes both detector and gate

	stop       context.CancelFunc
	background sync.WaitGroup
}

// New checks the settings, loads rules and keys, and starts the goroutine that
// maintains the gate. It sends nothing. The caller must call Close.
func New(cfg Config, deps Deps) (*Submitter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Tuning == (Tuning{}) {
		cfg.Tuning = DefaultTuning()
	}
	base, err := cfg.baseURL()
	if err != nil {
		return nil, err
	}
	s := &Submitter{cfg: cfg, base: base.String(), log: deps.Log, watch: deps.Watch, trace: deps.Trace, schema: deps.Schema, faults: newFaults()}
	if s.watch == nil {
		s.watch = noObserver{}
	}
	if cfg.Rules != "" {
		if s.judge.Rules, err = answer.LoadRules(cfg.Rules, cfg.RuleTimes()); err != nil {
			return nil, err
		}
	}
	s.looks = newLooks(cfg.Concurrency)
	if s.keys, err = newKeyring(deps.Keys, deps.Log); err != nil {
		return nil, err
	}
	conf := cfg.http(base, s.judge.Rules)
	conf.Log = deps.Log
	if s.client, err = http1.New(conf); err != nil {
		return nil, err
	}
	s.orders, s.sender = conf.Orders, s.client
	if deps.Sender != nil {
		s.sender = deps.Sender
	}
	s.clock = newClock(cfg.Clock, clockWarn, deps.Log)
	s.refusals, s.broken = newRefusalDetector(cfg), newRefusalDetector(cfg)
	s.gate = gate.New(cfg.gate(), deps.Log, gate.Hooks{Changed: func(now gate.State) { s.watch.GateChanged(now) }, Resumed: func() {
		s.refusals.trust()
		s.broken.trust()
	}})
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.background.Go(func() { s.maintain(ctx) })
	return s, nil
}

// Gate returns the gate that every attempt passes.
func (s *Submitter) Gate() *gate.Gate { return s.gate }

// Clock returns the estimate of the API's clock.
func (s *Submitter) Clock() ClockEstimate { return s.clock.estimate() }

// Notes returns remarks for people: about this machine's clock, and about files that could not
// be read again.
func (s *Submitter) Notes() []string {
	var clock, rules, lookups string
	if !s.gate.Stands(gate.BlockClock) { // which says so itself
		clock = s.clock.advice()
	}
	if note := s.rulesNote.Load(); note != nil {
		rules = *note
	}
	if status := s.looks.uncovered.Load(); status > 0 {
		lookups = fmt.Sprintf("lookups are answered with status %d, and no lookup rule in ORDERPOST_RULES covers that answer: those orders stay in doubt", status)
	}
	notes := []string{clock, rules, lookups, s.keys.note(), s.schema.Note()}
	return slices.DeleteFunc(notes, func(note string) bool { return note == "" })
}

// Drain is for a worker that is about to stop. Submissions that wait for the gate or
// for their next attempt end with EndHandBack, so another worker can take the orders
// at once. Attempts in flight go on. Drain may be called more than once and cannot be
// undone.
func (s *Submitter) Drain() { s.gate.Drain() }

// Close ends all waits at the gate and the goroutine that maintains it. Other
// submissions end with EndHandBack at their next step. Close does not wait for them.
// It may be called more than once.
func (s *Submitter) Close() {
	s.stop()
	s.background.Wait()
	s.gate.Close()
	s.refusals.close()
	s.broken.close()
	s.client.Close()
}

// maintain advances the gate's blocks when they are due, probes the account for them,
// and reloads the keys and the rules.
func (s *Submitter) maintain(ctx context.Context) {
	var reload <-chan time.Time
	if s.cfg.KeyReload > 0 {
		t := time.NewTicker(s.cfg.KeyReload)
		defer t.Stop()
		reload = t.C
	}
	var rules <-chan time.Time
	if s.cfg.Rules != "" || s.schema != nil {
		t := time.NewTicker(rulesEvery)
		defer t.Stop()
		rules = t.C
	}
	schema := s.schema.Taken()
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
		case <-rules:
			s.reloadRules()
			if taken := s.schema.Taken(); taken != schema {
				schema = taken
				s.broken.rulesChanged()
				s.gate.RulesChanged()
			}
		}
	}
}

// clean masks API keys in text that is recorded or logged.
func (s *Submitter) clean(text string) string { return s.keys.scrub.Load().clean(text) }

// reloadRules reads the rules file again. If that fails, the rules stay, and the error is
// logged once.
func (s *Submitter) reloadRules() {
	changed, err := s.judge.Rules.Reload()
	if err != nil {
		note := "going on with the old rules: " + err.Error()
		if last := s.rulesNote.Swap(&note); last == nil || *last != note {
			s.log.Error().Err(err).Msg("cannot read the rules file again; going on with the old rules")
		}
		return
	}
	if s.rulesNote.Swap(nil) != nil && !changed {
		s.log.Info().Msg("the rules file is as it was when it was read last")
	}
	if changed {
		s.log.Info().Int("rules", s.judge.Rules.Len()).Msg("rules file read again")
		s.looks.uncovered.Store(0)
		s.refusals.rulesChanged()
		s.gate.RulesChanged()
	}
}

// rulesEvery is how often the worker looks whether the rules file changed.
const rulesEvery = time.Second

// Observer receives events, for metrics. Orders wait for its methods, so they must be
// quick. They must not call the Submitter.
type Observer interface {
	// Attempted is called after each POST of an order.
	Attempted(a AttemptEvent)
	// GateChanged is called after each change of the gate, in order.
	GateChanged(s gate.State)
	// Retrying is called when an order waits for its next attempt: in the worker, or
	// in the queue if queued is set.
	Retrying(wait time.Duration, queued bool)
	// LookedUp is called after the API was asked whether it has an order in doubt.
	LookedUp(found order.Found)
}

// Tracer is called directly before each attempt with the submission's context, the
// address, and the number of the attempt over all submissions.
type Tracer func(ctx context.Context, to *url.URL, attempt int) Span

// Span is the span of an attempt. The zero Span is none.
type Span struct {
	Traceparent string             // the W3C trace header
	TraceID     string             // "" = the trace is not sampled
	Ended       func(AttemptEvent) // called when the attempt is over
}

// AttemptEvent is one POST of an order.
type AttemptEvent struct {
	OrderNo      string // must not become a metric label
	TraceID      string // "" = not traced or not sampled
	Verdict      order.Verdict
	Status       int    // 0 = no answer
	Reason       string // as in the record; a rule's reason is the operator's text
	Attempt      int    // of the order, over all submissions
	Started      time.Time
	Duration     time.Duration // from the start of the request to the end of the answer
	RequestBytes int
	GateWait     time.Duration // time at the gate before this attempt, RateWait included
	RateWait     time.Duration // the part of GateWait for the rate limit; 0 = none
}

type noObserver struct{}

func (noObserver) Attempted(AttemptEvent) {}
func (noObserver) GateChanged(gate.State) {}

func (noObserver) Retrying(time.Duration, bool) {}

func (noObserver) LookedUp(order.Found) {}
