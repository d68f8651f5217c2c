package worker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/ops"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
)

// defaultOpsAddr is the default of Config.OpsAddr. Taken, it is no reason not
// to work: it is how a second worker on the same machine finds it.
const defaultOpsAddr = "127.0.0.1:9464"

const (
	// sizesEvery is how often the sizes of the streams are asked for: often
	// enough for any scrape interval, and next to nothing for the broker.
	sizesEvery = 5 * time.Second
	// sizesTimeout bounds one asking.
	sizesTimeout = 4 * time.Second
)

// parts are what a snapshot of a working worker is taken of.
type parts struct {
	queue     *queue.Queue
	submitter *submit.Submitter
	pool      *Pool
	ground    *ground
	room      *room
}

// operations is a worker as its operators see it: metrics, health, and the
// server for both. It is up before the broker and the API are asked, so that
// a worker that waits for them can be seen waiting.
type operations struct {
	server   *ops.Server // nil where there is none
	log      zerolog.Logger
	stopping func() bool
	parts    atomic.Pointer[parts] // nil until the pool is at work
	sizes    atomic.Pointer[ops.Sizes]
}

// startOperations starts to count, and to serve what is counted on the
// address of the configuration. It puts itself in front of env's observers.
// The worker counts as draining once ctx ends.
func startOperations(ctx context.Context, cfg Config, env *Env) (*operations, error) {
	o := &operations{log: env.Log, stopping: func() bool { return ctx.Err() != nil }}
	reg := ops.NewRegistry()
	metrics := ops.New(reg, ops.Options{Version: env.Version, Blocks: gate.BlockNames(), Stages: stageNames(), State: o.snapshot})
	watch := &observer{metrics: metrics, attempts: env.Attempts, orders: env.Orders}
	env.Attempts, env.Orders = watch, watch
	if cfg.OpsAddr == "" {
		return o, nil
	}
	server, err := ops.Listen(ctx, ops.ServerOptions{Addr: cfg.OpsAddr, Metrics: reg, State: o.snapshot, PProf: cfg.PProf, Log: env.Log})
	switch {
	case err == nil:
		o.server = server
		env.Log.Debug().Str("url", server.URL()).Bool("pprof", cfg.PProf).Msg("serving /metrics, /livez and /readyz")
		if cfg.PProf && !loopback(cfg.OpsAddr) {
			env.Log.Warn().Str("address", cfg.OpsAddr).Msg("Go profiles are served to every machine that reaches this address, and show what is in the worker's memory: " +
				"set ORDERPOST_OPS_ADDR to a loopback address, or ORDERPOST_PPROF=false when you are done")
		}
	case cfg.OpsAddr == defaultOpsAddr:
		env.Log.Warn().Err(err).Msg("working without /metrics, /livez and /readyz: their default address cannot be had; give this worker another one (ORDERPOST_OPS_ADDR)")
	default:
		return nil, fmt.Errorf("%w: ORDERPOST_OPS_ADDR: %w", ErrConfig, err)
	}
	return o, nil
}

// loopback says whether only this machine reaches an address.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// stageNames are the stages that a block can be in.
func stageNames() []string {
	return []string{gate.StageTrial.String(), gate.StageProbe.String(), gate.StageShut.String()}
}

// attach tells that the pool is about to work.
func (o *operations) attach(p parts) { o.parts.Store(&p) }

// poll keeps the sizes of the streams up to date until ctx ends. They are not
// asked for at a scrape: that would hang when the broker does.
func (o *operations) poll(ctx context.Context) {
	if o.server == nil {
		return // nobody would see them
	}
	tick := time.NewTicker(sizesEvery)
	defer tick.Stop()
	for {
		o.sizes.Store(o.measure(ctx))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// measure gives nil where the broker does not answer: no number is better
// than an old one.
func (o *operations) measure(ctx context.Context) *ops.Sizes {
	ctx, cancel := context.WithTimeout(ctx, sizesTimeout)
	defer cancel()
	q := o.parts.Load().queue
	counts, err := q.Count(ctx)
	oldest, oldestErr := q.OldestPending(ctx)
	waiting, waitingErr := q.Waiting(ctx)
	if err = errors.Join(err, oldestErr, waitingErr); err == nil {
		return &ops.Sizes{Pending: counts.Pending, Waiting: waiting, OldestPending: oldest, Letters: counts.Letters}
	}
	o.log.Debug().Err(err).Msg("sizes of the streams not read") // a lost connection is logged where it is lost
	return nil
}

// snapshot is the worker at this moment.
func (o *operations) snapshot() ops.Snapshot {
	s := ops.Snapshot{Draining: o.stopping()}
	p := o.parts.Load()
	if p == nil {
		return s
	}
	s.Started, s.Connected, s.LeaseLosses = true, p.queue.Connected(), p.queue.LeasesLost()
	if s.Connected { // else what was read last is old already
		s.Sizes = o.sizes.Load()
	}
	s.Failures = ops.Failures{Results: ops.WriteFailures(p.queue.ResultFailures()), Letters: ops.WriteFailures(p.queue.LetterFailures())}
	s.Filed = make(map[order.Outcome]uint64)
	for _, outcome := range order.Outcomes() {
		s.Filed[outcome] = p.queue.LettersFiled(outcome)
	}
	s.Parts, s.Missing = p.ground.tell()
	s.InFlight, s.Slots = p.pool.InFlight(), p.pool.Concurrency
	s.Store = p.room.snapshot()
	s.Gate, s.Notes = gateSnapshot(p.submitter.Gate().State()), p.submitter.Notes()
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

// stop ends the server, if there is one.
func (o *operations) stop() {
	if o.server != nil {
		o.server.Stop()
	}
}

// validateOps checks the settings of the server, as far as they can be checked
// without taking the address.
func (c Config) validateOps() error {
	if c.OpsAddr == "" {
		if c.PProf {
			return errors.New("ORDERPOST_PPROF: has nowhere to be served while ORDERPOST_OPS_ADDR is empty")
		}
		return nil
	}
	if _, _, err := net.SplitHostPort(c.OpsAddr); err != nil {
		return fmt.Errorf("ORDERPOST_OPS_ADDR: %q is not host:port", c.OpsAddr)
	}
	return nil
}
