package settle

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

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
	// ProveAtOnce is how many intents a trim looks at before it removes those that are
	// settled (R14); 0 = ReadBatch.
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
