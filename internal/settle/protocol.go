package settle

import (
	"context"
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
	Log            zerolog.Logger
	// Patience is for commands. nil: requests fail at once.
	Patience Patience
}

// Protocol keeps the settle rules R1 to R8 (docs/protocol.md) over a [Store].
// It is safe for concurrent use and runs nothing in the background. The owner
// of the broker's connection calls [Protocol.ExtendClaims],
// [Protocol.Disconnected] and [Protocol.Reconnected].
type Protocol struct {
	cfg   Config
	log   zerolog.Logger
	store Store
	time  Runtime

	leases    *keeper
	highWater *highWater
	trimmer   trimmer
	cancelled cancelled

	moveFailed atomic.Pointer[time.Time] // when a move's publish failed last; nil = never

	disconnects atomic.Uint64                           // counts Disconnected and ForgetDeliveries
	reconnected atomic.Pointer[time.Time]               // time of the last reconnect; nil = never
	filed       [order.OutcomeUnknown + 1]atomic.Uint64 // letters filed, by outcome
	mutation    Mutation                                // set by simulations only
}

// New returns a Protocol. Call StartClaims before the first pull.
func New(cfg Config, store Store, runtime Runtime) *Protocol {
	if cfg.Patience == nil {
		cfg.Patience = impatient{}
	}
	q := &Protocol{cfg: cfg, log: cfg.Log, store: store, time: runtime}
	q.leases = newKeeper(q)
	q.highWater = newHighWater(q)
	return q
}

// StartClaims sets how long the broker waits for a silent worker, and the
// subject prefix of its answers to progress requests. ackWait is the consumer's
// own AckWait, which may differ from this program's setting.
func (q *Protocol) StartClaims(ackWait time.Duration, answers string) {
	q.leases.ackWait.Store(int64(ackWait))
	q.leases.inbox = answers
}

// AlignClaims takes the AckWait that the consumer has now. If claims relied on another
// one, it ends them all, because the broker may have delivered their messages again (R7).
// It returns the former AckWait.
func (q *Protocol) AlignClaims(ackWait time.Duration) (former time.Duration) {
	former = time.Duration(q.leases.ackWait.Swap(int64(ackWait)))
	if former != ackWait {
		q.leases.endAll()
	}
	return former
}

// ExtendClaims asks the broker for more time for every claim that needs it.
// Call it every [Protocol.ExtendEvery].
func (q *Protocol) ExtendClaims() { q.leases.extend() }

// ExtendEvery returns the time between two calls of ExtendClaims. It also
// bounds how late the end of a claim is noticed. The margin of a claim covers
// that.
func (q *Protocol) ExtendEvery() time.Duration { return q.leases.period() }

// ClaimExtended handles the broker's answer to a progress request. subject is
// the subject of the answer.
func (q *Protocol) ClaimExtended(subject string) { q.leases.handleAnswer(subject) }

// Disconnected ends every claim, because the broker may deliver the messages to
// other workers (R7).
func (q *Protocol) Disconnected() {
	q.disconnects.Add(1)
	q.leases.endAll()
}

// ForgetDeliveries is called when the broker's consumer is missing, or did not end a
// pull as it should: its server may have been killed while the connection, which leads
// to another server, holds. The consumer may then count deliveries from one again. As
// after a disconnect, the next pull reads the high-water marks again (highwater.go).
// Everything that was delivered before then counts as such. Deliveries that are on
// their way were judged by the former marks and lose their claims.
func (q *Protocol) ForgetDeliveries() { q.disconnects.Add(1) }

// RereadHighWaterMarks makes the next pull read the high-water marks again, and leaves
// claims alone. It is for a connection that does not tell whether the consumer's server
// was killed since the pull before.
func (q *Protocol) RereadHighWaterMarks() { q.highWater.reread() }

// Reconnected notes that the connection to the broker is back.
func (q *Protocol) Reconnected() {
	now := q.time.Now()
	q.reconnected.Store(&now)
}

// ReconnectedAt returns when the connection to the broker last came back; zero
// if it was never lost.
func (q *Protocol) ReconnectedAt() time.Time {
	if at := q.reconnected.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// ReconnectGraceUntil returns the time until which no redelivered order may be
// posted after the last reconnect (R7); zero if there was none. A broker that
// was killed may deliver an order again before its former owner notices. That
// worker is frozen or cut off, and believes in its claim for at most one term.
// Its attempt ends with the claim, but the request may be on its way for one
// attempt timeout.
func (q *Protocol) ReconnectGraceUntil() time.Time {
	at := q.ReconnectedAt()
	if at.IsZero() {
		return at
	}
	return at.Add(max(q.cfg.AttemptTimeout, q.leases.term()))
}

// RestoreHighWaterMark writes this worker's delivered high-water mark into a
// bucket that was created again.
func (q *Protocol) RestoreHighWaterMark(ctx context.Context) error { return q.highWater.restore(ctx) }

// ClaimTerm returns how long a claim lasts without an answer from the broker.
func (q *Protocol) ClaimTerm() time.Duration { return q.leases.term() }

// LeasesLost returns how many claims ended before their orders were finished.
func (q *Protocol) LeasesLost() uint64 { return q.leases.lost.Load() }

// LettersFiled returns how many dead letters with this outcome this program
// filed.
func (q *Protocol) LettersFiled(o order.Outcome) uint64 { return q.filed[o].Load() }
