package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/ops"
	"orderpost/internal/order"
	"orderpost/internal/platform/endpoint"
	"orderpost/internal/queue"
	"orderpost/internal/submit/gate"
)

// defaultOpsAddr is the default of Config.OpsAddr. If it is in use, the worker starts
// without a server: a second worker on a machine is normal.
const defaultOpsAddr = "127.0.0.1:9464"

const (
	// sizesEvery is how often the sizes of the streams are read. It is short enough for
	// any scrape interval and costs the broker little. In a large fleet each worker reads them
	// every sizesMost.
	sizesEvery = 5 * time.Second
	sizesMost  = 20 * time.Second
	// sizesTimeout is the timeout of one reading.
	sizesTimeout = 4 * time.Second
)

// operations is what operators see of a worker: metrics, health, and the server for
// both. It starts before the worker connects to the broker and the API, so operators
// also see a worker that waits for them.
type operations struct {
	server   *ops.Server // nil = none
	registry *prometheus.Registry
	watch    *observer
	log      zerolog.Logger
	stopping func() bool
	process  atomic.Pointer[process] // nil until attach
	working  chan struct{}           // closed by attach
	sizes    atomic.Pointer[ops.Sizes]
	// leaseSeen is the revision of the feeder's lease at the last poll.
	leaseSeen uint64
}

// startOperations creates the metrics and serves them on Config.OpsAddr. The
// worker counts as draining once ctx ends.
func startOperations(ctx context.Context, cfg Config, env Env) (*operations, error) {
	reg := ops.NewRegistry()
	o := &operations{log: env.Log, registry: reg, stopping: func() bool { return ctx.Err() != nil }, working: make(chan struct{})}
	o.watch = &observer{next: env.Watch, rate: requestRate{began: time.Now()}}
	o.watch.Metrics = ops.New(reg, ops.Options{Version: env.Version, Blocks: gate.BlockNames(), Stages: stageNames(), State: o.snapshot})
	o.observeSender(cfg) // room: notify
	if cfg.OpsAddr == "" {
		return o, nil
	}
	server, err := ops.Listen(ctx, ops.ServerOptions{Addr: cfg.OpsAddr, Metrics: reg, State: o.snapshot, PProf: cfg.PProf, Log: env.Log})
	switch {
	case err == nil:
		o.server = server
		env.Log.Debug().Str("url", server.URL()).Bool("pprof", cfg.PProf).Msg("serving /metrics, /livez and /readyz")
		if cfg.PProf && !endpoint.Local(cfg.OpsAddr) {
			env.Log.Warn().Str("address", cfg.OpsAddr).Msg("every machine that reaches this address can read Go profiles, which show what is in the worker's memory: " +
				"set ORDERPOST_OPS_ADDR to a loopback address, or ORDERPOST_PPROF=false when you are done")
		}
	case cfg.OpsAddr == defaultOpsAddr:
		env.Log.Warn().Err(err).Msg("working without /metrics, /livez and /readyz: cannot listen on their default address; give this worker another one (ORDERPOST_OPS_ADDR)")
	default:
		return nil, fmt.Errorf("%w: ORDERPOST_OPS_ADDR: %w", ErrConfig, err)
	}
	return o, nil
}

// stageNames lists the stages that a block can have.
func stageNames() []string {
	return []string{gate.StageTrial.String(), gate.StageProbe.String(), gate.StageShut.String()}
}

// attach has the worker's parts shown. The caller calls it when all of them run.
func (o *operations) attach(p *process) {
	o.process.Store(p)
	close(o.working)
}

// poll reads the sizes of the streams until ctx ends. A scrape does not read them,
// because it would hang whenever the broker does.
func (o *operations) poll(ctx context.Context) {
	if o.server == nil {
		return // nobody can see them
	}
	pause := func() time.Duration { return o.process.Load().control.Spread(sizesEvery, sizesMost) }
	repeat(ctx, pause, nil, func(ctx context.Context) { o.sizes.Store(o.measure(ctx)) })
}

// measure returns the sizes, or nil if the broker does not answer: no number is better
// than an old one.
func (o *operations) measure(ctx context.Context) *ops.Sizes {
	ctx, cancel := context.WithTimeout(ctx, sizesTimeout)
	defer cancel()
	q := o.process.Load().queue
	counts, err := q.Census.Count(ctx)
	deliveries, deliveriesErr := q.Census.Deliveries(ctx)
	sizes := &ops.Sizes{Pending: counts.Pending, Waiting: deliveries.Undelivered, Letters: counts.Letters, InRoom: counts.Waiting}
	var dueErr error
	if err == nil && counts.Pending > 0 {
		sizes.OldestDue, dueErr = q.Census.OldestDue(ctx, time.Now())
	}
	if err = errors.Join(err, deliveriesErr, dueErr); err == nil {
		o.lanes(ctx, q, sizes)
		return sizes
	}
	o.log.Debug().Err(err).Msg("cannot read the sizes of the streams") // the queue logs a lost connection
	return nil
}

// lanes adds what the worker tells that feeds the queue, and whether it does: it renews
// its lease, and has no problem. No worker tells anything once the waiting room is
// empty.
func (o *operations) lanes(ctx context.Context, q *queue.Queue, sizes *ops.Sizes) {
	if sizes.InRoom == 0 {
		return
	}
	now, err := imports.ReadFeeding(ctx, q, 0)
	if err != nil {
		o.log.Debug().Err(err).Msg("cannot read what is fed from the waiting room")
		return
	}
	sizes.Paused = len(now.Holds)
	if now.Lease == nil {
		return
	}
	sizes.Fed = now.LeaseRevision != o.leaseSeen && now.Lease.Problem == ""
	o.leaseSeen = now.LeaseRevision
	for _, l := range now.Lease.Lanes {
		sizes.Lanes = append(sizes.Lanes, ops.Lane{Name: l.Name, Ready: l.Ready, Oldest: l.Oldest})
	}
}

// snapshot returns the worker's present state.
func (o *operations) snapshot() ops.Snapshot {
	s := ops.Snapshot{Draining: o.stopping()}
	p := o.process.Load()
	if p == nil {
		return s
	}
	s.Started, s.Connected, s.LeaseLosses = true, p.queue.Conn.Connected(), p.queue.Claims.Lost()
	if s.Connected { // otherwise the last sizes are out of date
		s.Sizes = o.sizes.Load()
	}
	if v := p.queue.Conn.BrokerVerdict(); v.Version != "" {
		s.Broker = &ops.Broker{Version: v.Version, Verdict: v.Word()}
	}
	s.Failures = ops.Failures{Results: ops.WriteFailures(p.queue.ResultFailures()), Letters: ops.WriteFailures(p.queue.LetterFailures())}
	s.Filed = make(map[order.Outcome]uint64)
	for _, outcome := range order.Outcomes() {
		s.Filed[outcome] = p.queue.Ledger.LettersFiled(outcome)
	}
	s.Parts, s.Missing = p.topology.status()
	s.Stranded = p.pool.Trims() && p.queue.Trimmer.Strands()
	s.InFlight, s.Slots = p.pool.InFlight(), p.pool.Concurrency
	s.Store, s.Held = p.storage.snapshot(), p.member.Held()
	s.Gate, s.Notes = gateSnapshot(p.submitter.Gate().State()), p.submitter.Notes()
	if note := p.member.ClockNote(); note != "" {
		s.Notes = append(s.Notes, note)
	}
	if c := p.submitter.Clock(); c.Samples > 0 {
		s.Clock = &ops.Clock{Offset: c.Offset, Error: c.Error}
	}
	return s
}

func gateSnapshot(s gate.State) ops.Gate {
	g := ops.Gate{Open: s.Open, InFlight: s.InFlight, Limit: s.Limit, Waiting: s.Waiting, Rate: s.Rate, RateBinds: s.RateBinds}
	for _, b := range s.Blocks {
		g.Blocks = append(g.Blocks, ops.Block{Name: blockLabel(b.Name), Stage: b.Stage.String(),
			Reason: b.Reason, Since: b.Since, Until: b.Until})
	}
	return g
}

// stop stops the server, if there is one.
func (o *operations) stop() {
	if o.server != nil {
		o.server.Stop()
	}
}

// validateOps checks the settings of the server without listening.
func (c Config) validateOps() error {
	if c.OpsAddr == "" {
		if c.PProf {
			return errors.New("ORDERPOST_PPROF: needs ORDERPOST_OPS_ADDR, which is empty")
		}
		return nil
	}
	if err := endpoint.Listen(c.OpsAddr); err != nil {
		return fmt.Errorf("ORDERPOST_OPS_ADDR: %w", err)
	}
	return nil
}
