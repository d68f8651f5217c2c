package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
)

// Store is the broker as the settle protocol sees it. A Queue from [Open] has
// JetStream behind it; [NewSimulated] takes another one, so that the same code
// can be driven in simulated time.
//
// An error says that the broker did not answer, and that a write may have
// happened, unless it is named otherwise. Reads go to the streams' leaders.
type Store interface {
	// Record reads the last word on one order_no; the Record is nil only where
	// there is none. Error: ErrUnreadable.
	Record(ctx context.Context, token string) (Entry, error)
	// Records reads many at once and passes each to found, with its
	// ErrUnreadable if it has one. It returns an error, found's own among them,
	// where the answer was not complete.
	Records(ctx context.Context, tokens []string, found func(i int, e Entry, err error) error) error
	// PutRecord makes r the last word if the last sequence there is expect (0 =
	// absent). Errors: a stale expectation, ErrStorage.
	PutRecord(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error)

	// Letter, PutLetter and DeleteLetter are the same for dead letters.
	// DeleteLetter removes the one of l.Seq and no other; one that is gone is no
	// error.
	Letter(ctx context.Context, token string) (*Letter, error)
	PutLetter(ctx context.Context, token string, l *Letter, expect uint64) error
	DeleteLetter(ctx context.Context, token string, l *Letter) error

	// Intent and IntentAt read a stored intent by its order_no, or by its
	// sequence; nil where there is none.
	Intent(ctx context.Context, orderNo string) (*Message, error)
	IntentAt(ctx context.Context, seq uint64) (*Message, error)
	// PublishIntent stores an intent, of which Subject, Header and Data count. seq
	// is its place, or with AlreadyKnown that of its twin.
	PublishIntent(ctx context.Context, m *Message) (p Published, seq uint64, err error)
	// DeleteIntent removes a withdrawn one.
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
}

// jetStore is the Store of real streams.
type jetStore struct{ q *Queue }

func (s jetStore) Record(ctx context.Context, token string) (Entry, error) {
	raw, err := s.q.lastMsg(ctx, s.q.n.results, s.q.n.resPre+token)
	if err != nil || raw == nil {
		return Entry{}, err
	}
	return decodeRecord(raw)
}

func (s jetStore) Records(ctx context.Context, tokens []string, found func(i int, e Entry, err error) error) error {
	subjects := make([]string, len(tokens))
	for i, token := range tokens {
		subjects[i] = s.q.n.resPre + token
	}
	msgs, err := s.q.lastMsgs(ctx, s.q.n.results, subjects)
	if err != nil {
		return err
	}
	for i, subject := range subjects {
		var e Entry
		if raw := msgs[subject]; raw != nil {
			e, err = decodeRecord(raw)
		}
		if err = found(i, e, err); err != nil {
			return err
		}
	}
	return nil
}

func (s jetStore) PutRecord(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
	buf := recordBuffers.Get().(*[]byte)
	msg, err := s.q.recordMsg(token, r, (*buf)[:0])
	if err != nil {
		return 0, err
	}
	seq, err := s.q.results.put(ctx, msg, expect)
	if answered := err == nil || errors.Is(err, errStale); answered && cap(msg.Data) <= maxRecordBuffer { // else the writer may have it still
		*buf = msg.Data
		recordBuffers.Put(buf)
	}
	return seq, err
}

// recordBuffers are for the JSON of records; larger ones than maxRecordBuffer
// bytes are not kept.
var recordBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

const maxRecordBuffer = 64 << 10

func (s jetStore) Intent(ctx context.Context, orderNo string) (*Message, error) {
	return s.q.lastMsg(ctx, s.q.n.intents, s.q.n.newPre+order.Token(orderNo))
}

func (s jetStore) IntentAt(ctx context.Context, seq uint64) (*Message, error) {
	return s.q.msgAt(ctx, s.q.n.intents, seq)
}

func (s jetStore) PublishIntent(ctx context.Context, m *Message) (Published, uint64, error) {
	ack, err := s.q.js.PublishMsg(ctx, natsMsg(m), jetstream.WithRetryAttempts(5))
	p, err := publishAnswer(ack, err)
	if ack == nil {
		return p, 0, err
	}
	return p, ack.Sequence, err
}

func (s jetStore) DeleteIntent(ctx context.Context, seq uint64) error {
	return s.q.deleteMsg(ctx, s.q.n.intents, seq)
}

// deleteMsg removes a stored message. The error of one that is gone wraps
// jetstream's.
func (q *Queue) deleteMsg(ctx context.Context, name string, seq uint64) error {
	stream, err := q.stream(ctx, name)
	if err != nil {
		return err
	}
	return q.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := q.link.bound(ctx)
		defer cancel()
		return stream.DeleteMsg(ctx, seq)
	})
}

func (s jetStore) Born(ctx context.Context) (time.Time, error) {
	stream, err := s.q.stream(ctx, s.q.n.intents)
	if err != nil {
		return time.Time{}, err
	}
	return stream.CachedInfo().Created, nil
}

func (s jetStore) Pause(ctx context.Context, until time.Time) error {
	ctx, cancel := s.q.link.bound(ctx)
	defer cancel()
	_, err := s.q.js.PauseConsumer(ctx, s.q.n.intents, s.q.n.consumer, until)
	return err
}

func (s jetStore) Delivered(ctx context.Context) (uint64, error) {
	consumer, err := s.q.workersConsumer(ctx)
	if err != nil {
		return 0, err
	}
	return consumer.CachedInfo().Delivered.Stream, nil
}

func (s jetStore) Life() string { return s.q.nc.ConnectedServerId() }

func (s jetStore) MaxPayload() int64 { return s.q.nc.MaxPayload() }

// realTime is the Runtime of a process.
type realTime struct{}

func (realTime) Now() time.Time { return time.Now() }

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
