package settle

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/order"
)

// Config is what the protocol must know of its installation.
type Config struct {
	// Worker is the name that records carry.
	Worker string
	// IntentSubjects is the subject prefix of intents, with its final dot.
	IntentSubjects string
	// AttemptTimeout is how long one attempt may last at most: another worker's
	// open attempt note is decided only after it (R2), and redelivered orders
	// wait at least that long after a reconnect (R7).
	AttemptTimeout time.Duration
	Log            zerolog.Logger
	// Patience is for commands; nil: requests fail at once.
	Patience Patience
}

// Protocol keeps the settle rules R1 to R8 (docs/protocol.md) over a [Store].
// It is safe for concurrent use. Nothing of it runs in the background: whoever
// holds the connection to the broker calls [Protocol.ExtendClaims],
// [Protocol.Disconnected] and [Protocol.Reconnected].
type Protocol struct {
	cfg   Config
	log   zerolog.Logger
	store Store
	time  Runtime

	leases *keeper
	seen   *seen

	disconnects atomic.Uint64
	reconnected atomic.Pointer[time.Time]               // of the last reconnect; nil = never
	filed       [order.OutcomeUnknown + 1]atomic.Uint64 // letters, by outcome
	mutation    Mutation                                // set by simulations alone
}

// New makes a Protocol. Call StartClaims before the first pull.
func New(cfg Config, store Store, runtime Runtime) *Protocol {
	if cfg.Patience == nil {
		cfg.Patience = impatient{}
	}
	q := &Protocol{cfg: cfg, log: cfg.Log, store: store, time: runtime}
	q.leases = newKeeper(q)
	q.seen = newSeen(q)
	return q
}

// StartClaims sets how long the broker waits for a silent worker, and the
// subject under which it answers requests to extend a claim. The consumer's own
// AckWait counts, and not what this program would like it to be.
func (q *Protocol) StartClaims(ackWait time.Duration, answers string) {
	q.leases.setTerm(ackWait)
	q.leases.inbox = answers
}

// ExtendClaims asks the broker for more time for every claim that needs it.
// Call it every [Protocol.ExtendEvery].
func (q *Protocol) ExtendClaims() { q.leases.extend() }

// ExtendEvery is the time between two calls of ExtendClaims. A claim that nobody
// asks about is found to be over one period late at most, which its margin covers.
func (q *Protocol) ExtendEvery() time.Duration { return q.leases.period }

// ClaimExtended takes in the broker's answer to such a request; subject is the
// one that it came by.
func (q *Protocol) ClaimExtended(subject string) { q.leases.hear(subject) }

// Disconnected ends every claim: nobody knows what the broker does meanwhile (R7).
func (q *Protocol) Disconnected() {
	q.disconnects.Add(1)
	q.leases.endAll()
}

// ForgetDeliveries is called when the broker's consumer was found missing: it
// will be made anew, and count deliveries from one. The next pull reads the marks
// of deliveries again (seen.go), as after a disconnect, so that whatever the lost
// consumer delivered counts as delivered before. Deliveries that are on their way
// lose their claims.
func (q *Protocol) ForgetDeliveries() { q.disconnects.Add(1) }

// Reconnected notes that the connection to the broker is back.
func (q *Protocol) Reconnected() {
	now := q.time.Now()
	q.reconnected.Store(&now)
}

// ReconnectedAt is when the connection to the broker came back last; zero if it
// was never lost.
func (q *Protocol) ReconnectedAt() time.Time {
	if at := q.reconnected.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// ReconnectGraceUntil is how long after the last reconnect no redelivered order
// is posted (R7); zero if there was none. A broker that was killed may deliver
// an order again although its former owner has not noticed: that worker was
// frozen, or is cut off, and believes in its claim for a term at most. Its
// attempt, which ends with the claim, may be on its way for one attempt timeout.
func (q *Protocol) ReconnectGraceUntil() time.Time {
	at := q.ReconnectedAt()
	if at.IsZero() {
		return at
	}
	return at.Add(max(q.cfg.AttemptTimeout, q.leases.term))
}

// RestoreMark writes this worker's delivered high-water mark into a bucket that
// was made anew.
func (q *Protocol) RestoreMark(ctx context.Context) error { return q.seen.restore(ctx) }

// ClaimTerm is how long a claim lasts without an answer from the broker.
func (q *Protocol) ClaimTerm() time.Duration { return q.leases.term }

// LeasesLost counts the claims that were over before their orders were done
// with.
func (q *Protocol) LeasesLost() uint64 { return q.leases.lost.Load() }

// LettersFiled counts the dead letters with this outcome that were filed by
// this program.
func (q *Protocol) LettersFiled(o order.Outcome) uint64 { return q.filed[o].Load() }
