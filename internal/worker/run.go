package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/approvals"
	"orderpost/internal/books"
	"orderpost/internal/fleet"
	"orderpost/internal/gateway"
	"orderpost/internal/journal"
	"orderpost/internal/notify"
	"orderpost/internal/orderschema"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/sign"
	"orderpost/internal/submit"
	"orderpost/internal/waiting"
)

// preflightTimeout is the timeout of the preflight.
const preflightTimeout = 15 * time.Second

// ErrConfig is wrapped by every error of Run that a changed setting can fix. It is the HTTP
// door's, which a worker may open.
var ErrConfig = gateway.ErrConfig

// Env holds what Run needs besides the settings. Attempts and Orders may be nil.
type Env struct {
	Version  string
	Log      zerolog.Logger
	Attempts submit.Observer
	Orders   Observer
	// Trace creates spans; nil = no traces.
	Trace trace.Tracer

	rate *requestRate
	// look replaces topologyEvery in tests; 0 = topologyEvery.
	look time.Duration
}

// Run is the worker program. It asks the API for the account, starts or joins the
// broker, works until ctx ends, and drains. cfg must be normalized and valid.
//
// The error wraps ErrConfig if the settings cannot work, for example because the API
// refuses the key, and queue.ErrUnreachable if no broker answers.
func Run(ctx context.Context, cfg Config, env Env) error {
	env.Log = env.Log.With().Str("worker", cfg.Name).Logger()
	log := env.Log
	tuneMemory()
	view, err := startOperations(ctx, cfg, &env)
	if err != nil {
		return err
	}
	defer view.stop()
	defer view.supervise(ctx, cfg.DrainTimeout)()
	env.rate = newRequestRate(env.Attempts)
	env.Attempts = env.rate
	schema, err := cfg.Schema.Load(log)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	submitter, err := newSubmitter(cfg, env, schema)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	defer submitter.Close()
	if err := preflight(ctx, cfg, submitter, log); err != nil {
		return err
	}
	broker, err := startBroker(ctx, &cfg, log)
	if err != nil {
		return err
	}
	if broker != nil {
		defer broker.Stop()
	}
	q, err := queue.Open(ctx, cfg.Queue, log)
	if err != nil {
		return errors.Join(err, probeDescriptors()) // the client does not report that it could not open a socket
	}
	defer q.Close()
	err = fleet.New(q).ClaimIdentity(ctx, cfg.Identity(), cfg.Name, log)
	var other *fleet.IdentityError
	if errors.As(err, &other) {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err != nil {
		return err
	}
	sayWhere(cfg, broker, q.Topology.Made(), log)
	return work(ctx, cfg, env, q, schema, submitter, view, newStorageMonitor(broker, q, log))
}

// sayWhere logs where orders and results are stored, and which streams this worker
// created.
func sayWhere(cfg Config, broker *embedded.Server, made []string, log zerolog.Logger) {
	e, text := log.Info().Str("broker", queue.RedactURL(cfg.Queue.URL)), "stores at the broker"
	switch {
	case broker != nil:
		e, text = e.Str("data_dir", cfg.DataDir), "stores in its own broker"
	case cfg.Queue.Locate != nil:
		e, text = e.Str("data_dir", cfg.DataDir), "stores in another worker's broker"
	}
	if len(made) > 0 {
		e = e.Strs("made", made)
	}
	e.Msg(text)
}

func newSubmitter(cfg Config, env Env, schema *orderschema.Schema) (*submit.Submitter, error) {
	keys, err := submit.NewFileKeys(cfg.Keys, NewSigner)
	if err != nil {
		return nil, err
	}
	return submit.New(cfg.Submit, submit.Deps{Keys: keys, Log: env.Log, Schema: schema, Watch: env.Attempts, Trace: AttemptTracer(env.Trace)})
}

// NewSigner returns a signer for a secret. Package submit does not import sign.
func NewSigner(secret string) (submit.Signer, error) { return sign.New(secret) }

// preflight returns an error if the API refuses the key. If the API is out of reach,
// the worker starts nevertheless: a worker restarted during an outage waits at its
// gate.
func preflight(ctx context.Context, cfg Config, s *submit.Submitter, log zerolog.Logger) error {
	if !cfg.Preflight {
		log.Info().Str("api", cfg.Submit.URL).Msg("posts to the API, without a preflight")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	switch err := s.Preflight(ctx); {
	case err == nil:
		log.Info().Str("api", cfg.Submit.URL).Msg("posts to the API, which answers and knows the key; the secret is not tested until the first order is posted")
		return nil
	case errors.Is(err, submit.ErrDenied):
		return fmt.Errorf("%w: the API at %s refuses the key: %w", ErrConfig, cfg.Submit.URL, err)
	default:
		log.Warn().Err(err).Str("api", cfg.Submit.URL).Msg("the API does not answer yet; starting nevertheless")
		return nil
	}
}

// clockOffset returns the API's clock minus the worker's in milliseconds; nil = not
// known.
func clockOffset(c submit.ClockEstimate) *int64 {
	if c.Samples == 0 {
		return nil
	}
	ms := c.Offset.Milliseconds()
	return &ms
}

// newSender returns what sends outcomes to a receiver; nil = they are not sent.
func newSender(cfg Config, env Env, q *queue.Queue) (*notify.Sender, error) {
	if !cfg.Notify.On() {
		return nil, nil
	}
	s, err := notify.NewSender(notify.Options{Config: cfg.Notify, Queue: q, Name: cfg.Name, Version: env.Version, Log: env.Log})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return s, nil
}

// work runs the pool and the goroutines beside it.
func work(ctx context.Context, cfg Config, env Env, q *queue.Queue, schema *orderschema.Schema, s *submit.Submitter, view *operations, storage *storageMonitor) error {
	log := env.Log
	sender, err := newSender(cfg, env, q)
	if err != nil {
		return err
	}
	control := fleet.New(q)
	rule, err := books.ParseApprovalRule(cfg.Approvals)
	if err != nil {
		return fmt.Errorf("%w: ORDERPOST_APPROVALS: %w", ErrConfig, err)
	}
	feeder := waiting.New(waiting.Options{Queue: q, Fleet: control, Name: cfg.Name, Ruled: rule.On(), Log: log})
	pool := NewPool(PoolOptions{
		Queue: q, Submitter: s, Concurrency: cfg.Submit.Concurrency, Policy: cfg.Submit.OnUnsure,
		DrainTimeout: cfg.DrainTimeout, Trims: feeder.Leads,
		Log: log, LogSample: cfg.LogSample, Observer: env.Orders, Trace: env.Trace,
	})
	side, stop := context.WithCancel(context.WithoutCancel(ctx))
	var sides sync.WaitGroup
	started := time.Now().UTC()
	member := fleet.NewMember(fleet.Options{Control: control, Gate: s.Gate(), Name: cfg.Name, Limit: cfg.Submit.RateLimit, Identity: cfg.Identity(), Log: log, Cancel: q.Ledger.SetCancellations, Describe: func() fleet.Presence {
		gate, now := s.Gate().State(), time.Now()
		p := fleet.Presence{Since: started, Version: env.Version,
			InFlight: pool.InFlight(), Open: gate.Open, Reasons: append(gate.Reasons, storage.problems()...), Notes: s.Notes(), Rate: env.rate.perSecond(now), Slots: pool.Concurrency, Posting: env.rate.posting(now), ClockMS: clockOffset(s.Clock())}
		if why := q.Conn.OrdersDenied(); why != "" {
			p.Reasons = append(p.Reasons, why)
		}
		env.rate.describe(&p, gate, now)
		return p
	}})
	sides.Go(func() { member.Run(side) })
	topology := newTopologyMonitor(q, s.Gate(), log, env.look, cfg.Queue.AckWait)
	topology.first(side)
	sides.Go(func() { topology.run(side) })
	sides.Go(func() { storage.run(side) })
	sides.Go(func() {
		approvals.SetRule(side, q, cfg.Approvals, cfg.Name, env.Version, log)
		sides.Go(func() { approvals.KeepRule(side, q, cfg.Approvals, cfg.Name, env.Version, log) })
		feeder.Run(side)
	})
	carrier := approvals.Carrier{Queue: q, Journal: journal.New(q, "orderpost worker", env.Version), Log: log, Now: time.Now, Leads: feeder.Leads}
	sides.Go(func() { carrier.Run(side) })
	if sender != nil {
		sides.Go(func() { sender.Run(side) })
	}
	view.attach(sources{queue: q, submitter: s, pool: pool, topology: topology, storage: storage, sender: sender, member: member})
	sides.Go(func() { view.poll(side) })
	closeDoor, err := openDoor(ctx, cfg, q, schema, env, view.registry)
	if err != nil {
		stop()
		sides.Wait()
		return err
	}
	sends := log.Info().Int("concurrency", cfg.Submit.Concurrency).Float64("rate_limit", cfg.Submit.RateLimit).Stringer("on_unsure", cfg.Submit.OnUnsure)
	if view.server != nil {
		sends.Str("ops", view.server.URL())
	}
	sends.Str("version", env.Version).Msg("working")
	err = pool.Run(ctx)
	closeDoor()
	stop()
	sides.Wait()
	if err == nil {
		log.Info().Msg("stopped; nothing in flight")
	}
	return err
}
