package settle

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
)

// Config is what the protocol must know about its installation.
type Config struct {
	// Worker is the worker's name in records.
	Worker string
	// IntentSubjects is the subject prefix of intents, including the last dot.
	IntentSubjects string
	// WaitingSubjects is the subject prefix of intents that wait, including the
	// last dot.
	WaitingSubjects string
	// AttemptTimeout bounds one attempt. Only after it may a worker decide
	// about another worker's open attempt note (R2). Redelivered orders wait at
	// least that long after a reconnect (R7).
	AttemptTimeout time.Duration
	// LongestDelay bounds the delay of an order before its next submission. No delay lasts longer, whatever a
	// clock says (R9).
	LongestDelay time.Duration
	// ProveAtOnce is how many intents a trim looks at with one read (R14); 0 = ReadBatch.
	ProveAtOnce int
	// SweepAfter is how long a dead letter that no record names may stay, while its writer may be about to name
	// it; 0 = an hour.
	SweepAfter time.Duration
	Log        zerolog.Logger
	// Patience is for commands. nil: requests fail at once.
	Patience Patience
}

// Ledger reads and writes records and letters: the last word read exactly (R2), the
// conditional write (R1), and the letter of each failure (R4).
type Ledger struct {
	cfg   Config
	log   zerolog.Logger
	store Store
	time  Runtime

	cancelled   cancelled
	gaveBack    atomic.Uint64                           // counts what was given back without a delay
	purging     atomic.Bool                             // this process purges the log of intents (R14)
	disconnects atomic.Uint64                           // counts Disconnected and ForgetDeliveries
	filed       [order.OutcomeUnknown + 1]atomic.Uint64 // letters filed, by outcome
}

// LettersFiled returns how many dead letters with this outcome this program
// filed.
func (lg *Ledger) LettersFiled(o order.Outcome) uint64 { return lg.filed[o].Load() }

// link names a connection to a run of the broker.
type link struct {
	// disconnects is Ledger.disconnects. A process that was frozen may hear of a
	// lost connection after it has the next one.
	disconnects uint64
	serverID    string // Store.ServerID
}

func (lg *Ledger) link() link { return link{lg.disconnects.Load(), lg.store.ServerID()} }

// SetCancellations tells the protocol the cancellations. It ignores a version that is not
// newer than the one it knows: a replica that lags may have told of it.
func (lg *Ledger) SetCancellations(c Cancellations) {
	next := &marks{c, make(chan struct{})}
	for {
		known := lg.cancelled.load()
		if c.Version <= known.Version {
			return
		}
		if lg.cancelled.now.CompareAndSwap(known, next) {
			close(known.changed)
			return
		}
	}
}

// CancellationsChanged returns the version of the cancellations that are known, and a
// channel that is closed when another version is known.
func (lg *Ledger) CancellationsChanged() (version int64, changed <-chan struct{}) {
	m := lg.cancelled.load()
	return m.Version, m.changed
}

// Cancellations returns those that are known.
func (lg *Ledger) Cancellations() Cancellations { return lg.cancelled.load().Cancellations }

// Protocol keeps the settle rules R1 to R10 and R13 to R15 (docs/protocol.md) over a
// [Store], with one part for each who acts. The parts are safe for concurrent use and run
// nothing in the background. The owner of the broker's connection calls [Claims.Extend],
// [Worker.Disconnected] and [Worker.Reconnected].
type Protocol struct {
	// Ledger reads and writes records and letters. All other parts rest on it.
	Ledger *Ledger
	// Producer stores intents.
	Producer *Producer
	// Worker takes a delivery from the pull to its acknowledgement.
	Worker *Worker
	// Claims are the worker's claims on its deliveries.
	Claims *Claims
	// Trimmer keeps the log of intents short.
	Trimmer *Trimmer
	// Sweeper removes dead letters that no record names.
	Sweeper *Sweeper
	// Overdue finds deliveries that wait for a clock.
	Overdue *Overdue
	// Mover takes intents out of the waiting room.
	Mover *Mover
	// Operator carries out what persons say.
	Operator *Operator
}

// New returns a Protocol. Call Claims.Start before the first pull.
func New(cfg Config, store Store, runtime Runtime) Protocol {
	if cfg.Patience == nil {
		cfg.Patience = impatient{}
	}
	cfg.ProveAtOnce, cfg.SweepAfter = cmp.Or(cfg.ProveAtOnce, ReadBatch), cmp.Or(cfg.SweepAfter, time.Hour)
	ledger := &Ledger{cfg: cfg, log: cfg.Log, store: store, time: runtime}
	producer, claims := &Producer{ledger}, newClaims(ledger)
	acked := &acknowledged{}
	return Protocol{
		Ledger: ledger, Producer: producer, Claims: claims,
		Worker:   &Worker{ledger: ledger, claims: claims, acked: acked, highWater: newHighWater(ledger)},
		Trimmer:  &Trimmer{ledger: ledger, claims: claims, acked: acked},
		Sweeper:  &Sweeper{ledger: ledger},
		Overdue:  &Overdue{ledger: ledger, claims: claims},
		Mover:    &Mover{ledger: ledger},
		Operator: &Operator{ledger, producer},
	}
}

// Runtime is what the protocol needs from the machine: a clock and concurrency.
type Runtime interface {
	Now() time.Time
	// Sleep returns nil after d, or ctx's error when ctx ends first.
	Sleep(ctx context.Context, d time.Duration) error
	WithDeadline(ctx context.Context, at time.Time) (context.Context, context.CancelFunc)
	// Each calls do for 0 to n-1, at most limit calls at once, and returns the
	// first error after all calls have returned.
	Each(n, limit int, do func(i int) error) error
	// NewLock returns the lock under which a suspect order is handled alone
	// (R8).
	NewLock() Lock
	// Survivable reports whether a worker goes on after this panic. It always
	// does, except in simulations, where a panic is also how a process is
	// killed.
	Survivable(panicked any) bool
}

// Lock is a sync.RWMutex or behaves like one.
type Lock interface {
	sync.Locker
	RLock()
	RUnlock()
}

// RealTime returns the Runtime of a process.
func RealTime() Runtime { return realTime{} }

// realTime is the Runtime of a process.
type realTime struct{}

func (realTime) Now() time.Time { return time.Now() }

func (realTime) NewLock() Lock { return new(sync.RWMutex) }

func (realTime) Survivable(any) bool { return true }

func (realTime) Sleep(ctx context.Context, d time.Duration) error { return Sleep(ctx, d) }

// Sleep returns nil after d, or ctx's error when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (realTime) WithDeadline(ctx context.Context, at time.Time) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, at)
}

func (realTime) Each(n, limit int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}
	var all errgroup.Group
	all.SetLimit(limit)
	for i := range n {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}

// ErrUnreachable is returned if the broker did not answer in time. The message
// names the broker's address.
var ErrUnreachable = errors.New("broker out of reach")

// Patience is how a person's command waits for a broker that is out of reach. A
// worker has no Patience: it must not hold a claim while it waits.
type Patience interface {
	// Transient reports whether a request failed because the broker was out of
	// reach.
	Transient(err error) bool
	// Wait returns the Wait of one caller.
	Wait() Wait
}

// Wait measures how long one caller waits.
type Wait interface {
	// Backoff pauses before a request that failed with cause is repeated. It
	// returns an error if the request must not be repeated: ErrUnreachable
	// (wrapped) when the time is up, the broker's refusal, or the error of ctx.
	Backoff(ctx context.Context, cause error) error
	// Answered says that the broker answered another request meanwhile. If the connection
	// was lost before that, the next failure is another outage, and begins a new wait.
	Answered()
	// Done says that the caller does not wait any more. Its next failure begins
	// a new wait.
	Done()
}

// impatient is the Patience of callers that do not wait.
type impatient struct{}

func (impatient) Transient(error) bool                 { return false }
func (impatient) Wait() Wait                           { return impatient{} }
func (impatient) Backoff(context.Context, error) error { return nil }
func (impatient) Answered()                            {}
func (impatient) Done()                                {}
