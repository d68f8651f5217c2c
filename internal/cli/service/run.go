package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/gateway/door"
	"orderpost/internal/notify" // room: notify
	"orderpost/internal/order"
	"orderpost/internal/order/schema"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/sign"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
	"orderpost/internal/worker"
	"orderpost/internal/worker/feed"
)

// preflightTimeout is the timeout of the preflight.
const preflightTimeout = 15 * time.Second

// ErrConfig is wrapped by every error of Run that a changed setting can fix. It is the HTTP
// door's, which a worker may open.
var ErrConfig = door.ErrConfig

// Watcher is told what a worker does.
type Watcher interface {
	// Attempted and GateChanged are submit.Observer's, Settled is worker.Observer's.
	Attempted(submit.AttemptEvent)
	GateChanged(gate.State)
	Settled(rec *order.Record, traceID string)
}

// Env holds what Run needs besides the settings.
type Env struct {
	Version string
	Log     zerolog.Logger
	// Watch may be nil.
	Watch Watcher
	// Trace creates spans; nil = no traces.
	Trace trace.Tracer
	// Files opens what the HTTP door does with files of orders; nil = it takes none.
	Files door.OpenFiles

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
	p := &process{cfg: cfg, env: env, log: env.Log, started: time.Now().UTC()}
	defer p.stop()
	for _, start := range []func(context.Context) error{p.operate, p.load, p.preflight, p.connect, p.claim, p.assemble,
		p.openSender, // room: notify
		p.goBeside,
		p.openDoor, // room: gateway
	} {
		if err := start(ctx); err != nil {
			return err
		}
	}
	p.sayWorking()
	err := p.pool.Run(ctx)
	if p.stop(); err == nil {
		p.log.Info().Msg("stopped; nothing in flight")
	}
	return err
}

// process is the worker program. Its parts start in the order of the fields, and stop in reverse.
type process struct {
	cfg     Config
	env     Env
	log     zerolog.Logger
	started time.Time
	stops   []func() // of what runs, in the order in which it started

	view      *operations
	schema    *schema.Schema
	submitter *submit.Submitter
	broker    *embedded.Server // nil = another process's, or none
	queue     *queue.Queue
	control   *fleet.Control

	feeder   *feed.Feeder
	pool     *worker.Pool
	storage  *storageMonitor
	topology *topologyMonitor
	sender   *notify.Sender // room: notify
	member   *fleet.Member
	beside   []func(context.Context) // what else runs beside the pool
}

// later has stop called when the program ends, before all that started earlier stops.
func (p *process) later(stop func()) { p.stops = append(p.stops, stop) }

// stop stops what runs. It may be called again.
func (p *process) stop() {
	for len(p.stops) > 0 {
		last := len(p.stops) - 1
		stop := p.stops[last]
		p.stops = p.stops[:last]
		stop()
	}
}

// operate serves metrics and health, and tells systemd how the worker is. Operators also see a
// worker that waits for the broker or the API.
func (p *process) operate(ctx context.Context) (err error) {
	if p.view, err = startOperations(ctx, p.cfg, p.env); err != nil {
		return err
	}
	p.later(p.view.stop)
	p.later(p.view.supervise(ctx, p.cfg.DrainTimeout))
	return nil
}

// load reads the files that the settings name, and makes what posts to the API.
func (p *process) load(context.Context) (err error) {
	if p.schema, err = p.cfg.Schema.Load(p.log); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	keys, err := submit.NewFileKeys(p.cfg.Keys, NewSigner)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	p.submitter, err = submit.New(p.cfg.Submit, submit.Deps{Keys: keys, Log: p.log, Schema: p.schema, Watch: p.view.watch, Trace: worker.AttemptTracer(p.env.Trace)})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	p.later(p.submitter.Close)
	return nil
}

// preflight returns an error if the API refuses the key. If the API is out of reach,
// the worker starts nevertheless: a worker restarted during an outage waits at its
// gate.
func (p *process) preflight(ctx context.Context) error {
	api := p.cfg.Submit.URL
	if !p.cfg.Preflight {
		p.log.Info().Str("api", api).Msg("posts to the API, without a preflight")
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, preflightTimeout)
	defer cancel()
	switch err := p.submitter.Preflight(ctx); {
	case err == nil:
		p.log.Info().Str("api", api).Msg("posts to the API, which answers and knows the key; the secret is not tested until the first order is posted")
		return nil
	case errors.Is(err, submit.ErrDenied):
		return fmt.Errorf("%w: the API at %s refuses the key: %w", ErrConfig, api, err)
	default:
		p.log.Warn().Err(err).Str("api", api).Msg("the API does not answer yet; starting nevertheless")
		return nil
	}
}

// connect starts or joins the broker, and opens the queue.
func (p *process) connect(ctx context.Context) (err error) {
	if p.broker, err = startBroker(ctx, &p.cfg, p.log); err != nil {
		return err
	}
	if p.broker != nil {
		p.later(p.broker.Stop)
	}
	if p.queue, err = queue.Open(ctx, p.cfg.Queue, p.log); err != nil {
		return errors.Join(err, probeDescriptors()) // the client does not report that it could not open a socket
	}
	p.later(p.queue.Close)
	p.control = fleet.New(p.queue)
	return nil
}

// claim claims the orders for the API, and logs where they are stored. It returns an error
// if they belong to another one.
func (p *process) claim(ctx context.Context) error {
	err := p.control.ClaimIdentity(ctx, p.cfg.Identity(), p.cfg.Name, p.log)
	if _, other := errors.AsType[*fleet.IdentityError](err); other {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err != nil {
		return err
	}
	e, text := p.log.Info().Str("broker", queue.RedactURL(p.cfg.Queue.URL)), "stores at the broker"
	switch {
	case p.broker != nil:
		e, text = e.Str("data_dir", p.cfg.DataDir), "stores in its own broker"
	case p.cfg.Queue.Locate != nil:
		e, text = e.Str("data_dir", p.cfg.DataDir), "stores in another worker's broker"
	}
	if made := p.queue.Topology.Made(); len(made) > 0 {
		e = e.Strs("made", made)
	}
	e.Msg(text)
	return nil
}

// assemble makes the pool and what runs beside it. Nothing of it runs yet.
func (p *process) assemble(context.Context) error {
	cfg, q := p.cfg, p.queue
	rule, err := imports.ParseApprovalRule(cfg.Approvals)
	if err != nil {
		return fmt.Errorf("%w: ORDERPOST_APPROVALS: %w", ErrConfig, err)
	}
	p.feeder = feed.New(feed.Options{Queue: q, Fleet: p.control, Name: cfg.Name, Ruled: rule.On(), Log: p.log})
	p.pool = worker.NewPool(worker.PoolOptions{
		Queue: q, Submitter: p.submitter, Concurrency: cfg.Submit.Concurrency, Policy: cfg.Submit.OnUnsure,
		DrainTimeout: cfg.DrainTimeout, Trims: p.feeder.Leads,
		Log: p.log, LogSample: cfg.LogSample, Observer: p.view.watch, Trace: p.env.Trace,
	})
	p.storage = newStorageMonitor(p.broker, q, p.control, p.log)
	p.topology = newTopologyMonitor(q, p.control, p.feeder.Leads, p.submitter.Gate(), p.log, p.env.look, cfg.Queue.AckWait)
	p.member = fleet.NewMember(fleet.Options{Control: p.control, Gate: p.submitter.Gate(), Name: cfg.Name, Limit: cfg.Submit.RateLimit,
		Identity: cfg.Identity(), Log: p.log, Cancel: q.Ledger.SetCancellations, Look: p.topology.lookSoon, Describe: p.describe})
	return nil
}

// describe returns what this worker tells the fleet about itself.
func (p *process) describe() fleet.Presence {
	gate, now := p.submitter.Gate().State(), time.Now()
	perSecond, posting := p.view.watch.rate.average(now)
	d := fleet.Presence{Since: p.started, Version: p.env.Version, InFlight: p.pool.InFlight(), Open: gate.Open,
		Reasons: append(gate.Reasons, p.storage.problems()...), Notes: p.submitter.Notes(), Rate: perSecond,
		Slots: p.pool.Concurrency, Posting: posting, ClockMS: clockOffset(p.submitter.Clock())}
	if why := p.queue.Conn.OrdersDenied(); why != "" {
		d.Reasons = append(d.Reasons, why)
	}
	p.view.watch.rate.describe(&d, gate, now)
	return d
}

// goBeside starts what runs beside the pool. It goes on while the pool drains.
func (p *process) goBeside(ctx context.Context) error {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	p.later(func() { stop(); all.Wait() })
	all.Go(func() { p.member.Run(ctx) })
	p.topology.first(ctx)
	all.Go(func() { p.topology.run(ctx) })
	all.Go(func() { p.storage.run(ctx) })
	all.Go(func() {
		approval.SetRule(ctx, p.queue, p.cfg.Approvals, p.cfg.Name, p.env.Version, p.log)
		all.Go(func() { approval.KeepRule(ctx, p.queue, p.cfg.Approvals, p.cfg.Name, p.env.Version, p.log) })
		p.feeder.Run(ctx)
	})
	carrier := approval.Carrier{Queue: p.queue, Journal: journal.New(p.queue, "orderpost worker", p.env.Version), Log: p.log, Now: time.Now, Leads: p.feeder.Leads}
	all.Go(func() { carrier.Run(ctx) })
	for _, run := range p.beside {
		all.Go(func() { run(ctx) })
	}
	p.view.attach(p)
	all.Go(func() { p.view.poll(ctx) })
	return nil
}

func (p *process) sayWorking() {
	e := p.log.Info().Int("concurrency", p.cfg.Submit.Concurrency).Float64("rate_limit", p.cfg.Submit.RateLimit).Stringer("on_unsure", p.cfg.Submit.OnUnsure)
	if p.view.server != nil {
		e.Str("ops", p.view.server.URL())
	}
	e.Str("version", p.env.Version).Msg("working")
}

// NewSigner returns a signer for a secret. Package submit does not import sign.
func NewSigner(secret string) (submit.Signer, error) { return sign.New(secret) }

// clockOffset returns the API's clock minus the worker's in milliseconds; nil = not
// known.
func clockOffset(c submit.ClockEstimate) *int64 {
	if c.Samples == 0 {
		return nil
	}
	ms := c.Offset.Milliseconds()
	return &ms
}
