package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/submit"
)

// settleGrace is the default of PoolOptions.SettleGrace.
const settleGrace = 5 * time.Second

// errDraining is the cause of an attempt's end once the drain timeout is over.
var errDraining = errors.New("the worker is stopping")

// Observer is told about every order that leaves the pool. Its methods must be
// quick and safe for concurrent use.
type Observer interface {
	// Settled: an intent got its outcome. traceID is empty unless its trace is sampled.
	Settled(rec *order.Record, traceID string)
	// Returned: an intent went back to the queue, or was left to another worker.
	Returned(action order.Action)
	// Redelivered: a message arrived that had been delivered before.
	Redelivered(explained bool)
}

type noObserver struct{}

func (noObserver) Settled(*order.Record, string) {}
func (noObserver) Returned(order.Action)         {}
func (noObserver) Redelivered(bool)              {}

// PoolOptions are what a pool is made of. Queue, Submitter and Concurrency are
// required.
type PoolOptions struct {
	Queue        *queue.Queue
	Submitter    *submit.Submitter
	Concurrency  int
	Policy       order.Policy
	DrainTimeout time.Duration
	// SettleGrace is how long outcomes may still be written after the drain
	// timeout ended the attempts; default 5 s.
	SettleGrace time.Duration
	Log         zerolog.Logger
	// LogSample is as in Config.
	LogSample int
	Observer  Observer
	// Trims reports whether this pool trims the log of intents, which one of a fleet does
	// (R14); nil = always.
	Trims func() bool
	// Trace makes spans; nil: no traces.
	Trace trace.Tracer
}

// Pool takes orders from the queue to the API, as many at a time as it has
// slots.
type Pool struct {
	PoolOptions
	slots      *slots
	handler    *settle.Handler
	goroutines *goroutines
	prefetch   prefetch
	storage    *storageFault
	lines      *orderLog
	draining   atomic.Bool
	swept      atomic.Int64 // see awaitGate
	lettersAt  time.Time    // when sweepLetters last looked
	// inHand counts the orders that are worked on now.
	inHand atomic.Int64

	work      context.Context // ends attempts
	endWork   context.CancelCauseFunc
	settle    context.Context // ends the writing of outcomes
	endSettle context.CancelFunc
}

// NewPool makes a pool; Run starts it.
func NewPool(o PoolOptions) *Pool {
	if o.Observer == nil {
		o.Observer = noObserver{}
	}
	if o.Trims == nil {
		o.Trims = func() bool { return true }
	}
	if o.SettleGrace == 0 {
		o.SettleGrace = settleGrace
	}
	p := &Pool{PoolOptions: o, storage: &storageFault{gate: o.Submitter.Gate(), log: o.Log},
		lines: newOrderLog(o.Log, o.LogSample)}
	p.prefetch.slots = o.Concurrency
	p.slots = newSlots(o.Concurrency, p.besideSlots)
	p.slots.more = o.Submitter.Gate().Passed()
	p.goroutines = newGoroutines(p.handle)
	p.handler = p.newHandler()
	return p
}

// InFlight is the number of orders that are worked on at this moment.
func (p *Pool) InFlight() int { return int(p.inHand.Load()) }

// Run works until ctx ends, then drains: it takes nothing new, gives back what
// it did not start or what waits for its next attempt, finishes what is in
// flight within the drain timeout, and hands back the rest. It returns nil after a complete drain.
func (p *Pool) Run(ctx context.Context) error {
	p.work, p.endWork = context.WithCancelCause(context.WithoutCancel(ctx))
	p.settle, p.endSettle = context.WithCancel(context.WithoutCancel(ctx))
	defer p.endWork(nil)
	defer p.endSettle()
	go p.goroutines.look()
	defer p.goroutines.end()
	defer p.lines.flush()
	defer p.startTrimming()()
	defer inBackground(func() time.Duration { return housekeepEvery }, p.housekeep)()

	p.intake(ctx)
	p.draining.Store(true)
	p.Submitter.Drain()
	return p.drain()
}

func (p *Pool) drain() error {
	p.Log.Info().Int("in_flight", p.InFlight()).Dur("drain_timeout_ms", p.DrainTimeout).Msg("draining: nothing new is taken")
	within, cancel := context.WithTimeout(context.Background(), p.DrainTimeout)
	defer cancel()
	if p.slots.idle(within) == nil {
		return nil
	}
	p.Log.Warn().Int("in_flight", p.InFlight()).Msg("drain timeout: handing back what is still in flight")
	p.endWork(errDraining)
	grace, cancelGrace := context.WithTimeout(context.Background(), p.SettleGrace)
	defer cancelGrace()
	if p.slots.idle(grace) == nil {
		return nil
	}
	p.endSettle()
	if n := p.InFlight(); n > 0 {
		p.Log.Error().Int("in_flight", n).Msg("outcomes could not be written in time; the orders come back to another worker")
		return errors.New("stopped with orders in flight: the broker did not take their outcomes in time")
	}
	return nil
}
