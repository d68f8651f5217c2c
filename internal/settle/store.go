package settle

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
)

// Store is the broker as the settle protocol sees it. Package queue implements
// it with JetStream; package simulation with a model in simulated time.
//
// An error says that the broker did not answer, and that a write may have
// happened, unless it is named otherwise. Reads go to the streams' leaders, but
// for Records.
type Store interface {
	// Record reads the last word on one order_no; the Record is nil only where
	// there is none. Error: ErrUnreadable.
	Record(ctx context.Context, token string) (Entry, error)
	// Records reads many at once, a thousand at most, and passes each to found,
	// with its ErrUnreadable if it has one; such an entry has its Seq. One replica
	// answers for all of them as of one moment, and it may lag behind the leader. It
	// returns an error, found's own among them, where the answer was not complete.
	Records(ctx context.Context, tokens []string, found func(i int, e Entry, err error) error) error
	// Barrier asks the leader for the last record of all.
	Barrier(ctx context.Context) (Barrier, error)
	// PutRecord makes r the last word if the last sequence there is expect (0 =
	// absent). Errors: a stale expectation, ErrStorage.
	PutRecord(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error)

	// Letter reads the dead letter of one order_no; nil where there is none.
	// Error: ErrNotALetter.
	Letter(ctx context.Context, token string) (*Letter, error)
	// PutLetter stores l if the letter that lies there is still the given one
	// (nil = none), of which it removes what l does not need. Errors as PutRecord.
	PutLetter(ctx context.Context, token string, l, replaces *Letter) error
	// DeleteLetter removes the letter of l.Seq and no other. A letter that is
	// gone already is no error. Error: ErrRefused.
	DeleteLetter(ctx context.Context, token string, l *Letter) error

	// Intent and IntentAt read a stored intent by its order_no, or by its
	// sequence; nil where there is none.
	Intent(ctx context.Context, orderNo string) (*Message, error)
	IntentAt(ctx context.Context, seq uint64) (*Message, error)
	// PublishIntent stores an intent, of which Subject, Header and Data count. seq
	// is its place, or with AlreadyKnown that of its twin.
	PublishIntent(ctx context.Context, m *Message) (p Published, seq uint64, err error)
	// DeleteIntent removes a withdrawn intent. One that is gone is no error.
	DeleteIntent(ctx context.Context, seq uint64) error

	// Born is when the intents stream was made.
	Born(ctx context.Context) (time.Time, error)
	// Mark and PutMark are how far a worker was given intents (seen.go).
	Mark(ctx context.Context, key string) (m Mark, seq uint64, err error)
	PutMark(ctx context.Context, key string, m Mark, expect uint64) (uint64, error)

	// Pause stops deliveries until then; Delivered is the last sequence that was
	// given to anybody, as far as the broker remembers.
	Pause(ctx context.Context, until time.Time) error
	Delivered(ctx context.Context) (uint64, error)
	// Extend asks for more time for a claim. The answer comes by itself, or not.
	Extend(reply, answer string) error
	// Life names the run of the broker that the connection leads to; a broker
	// that was killed and started again has another one.
	Life() string
	// MaxPayload is the largest message that the broker takes, in bytes.
	MaxPayload() int64
	// Replicated: the streams have more than one replica, or may get more.
	Replicated() bool
}

// Runtime is what the protocol needs of the machine: its clock, and the means
// to do several things at once.
type Runtime interface {
	Now() time.Time
	// Sleep returns nil after d, or ctx's error when ctx ends first.
	Sleep(ctx context.Context, d time.Duration) error
	WithDeadline(ctx context.Context, at time.Time) (context.Context, context.CancelFunc)
	// Each calls do for 0 to n-1, limit of them at once, and returns the first
	// error after all have ended.
	Each(n, limit int, do func(i int) error) error
	// NewLock makes the lock under which a suspect order is handled alone (R8).
	NewLock() Lock
	// Survivable says whether a worker goes on after this panic. It does, but in
	// simulations, where a panic is also how a process is killed.
	Survivable(panicked any) bool
}

// Lock is a sync.RWMutex, or acts like one.
type Lock interface {
	sync.Locker
	RLock()
	RUnlock()
}

// RealTime is the Runtime of a process.
func RealTime() Runtime { return realTime{} }

// realTime is the Runtime of a process.
type realTime struct{}

func (realTime) Now() time.Time { return time.Now() }

func (realTime) NewLock() Lock { return new(sync.RWMutex) }

func (realTime) Survivable(any) bool { return true }

func (realTime) Sleep(ctx context.Context, d time.Duration) error {
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

// Message is a stored message.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  Header
	Data    []byte
}

// Header is a message's headers; names are case-sensitive, as in NATS.
type Header map[string][]string

// Get is the first value of a header, or "".
func (h Header) Get(name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Set replaces the values of a header by one.
func (h Header) Set(name, value string) { h[name] = []string{value} }
