package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"orderpost/internal/settle"
)

// OldestPending is when the oldest stored intent was stored, delayed ones and
// those in flight included; zero where there is none.
func (q *Queue) OldestPending(ctx context.Context) (time.Time, error) {
	stream, err := q.stream(ctx, q.n.intents)
	if err != nil {
		return time.Time{}, err
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return time.Time{}, nil // FirstTime then says something else
	}
	return state.FirstTime, nil
}

// Waiting is the number of intents that no worker has been given yet: neither
// those in flight nor those whose delay is not over.
func (q *Queue) Waiting(ctx context.Context) (uint64, error) {
	consumer, err := q.js.Consumer(ctx, q.n.intents, q.n.consumer)
	if err != nil {
		return 0, fmt.Errorf("consumer %s of stream %s: %w", q.n.consumer, q.n.intents, err)
	}
	return consumer.CachedInfo().NumPending, nil
}

// failures counts the writes to one stream that were not confirmed. All of them
// are repeated; a write that somebody else's was ahead of is none.
type failures struct {
	refused, unconfirmed atomic.Uint64
	// since is when the first write was left without an answer, in unix
	// nanoseconds, after which none was answered; 0 = the last one was.
	since atomic.Int64
}

func (f *failures) note(err error) {
	switch {
	case errors.Is(err, settle.ErrStorage):
		f.refused.Add(1)
	case errors.Is(err, errUnconfirmed):
		f.unconfirmed.Add(1)
		if !errors.Is(err, errLinkBroken) {
			f.since.CompareAndSwap(0, time.Now().UnixNano())
		}
		return
	}
	f.since.Store(0)
}

// silence is how long writes may go without an answer, in a connection that
// stands, before that is worth telling.
const silence = 2 * requestTimeout

// Silent names the stream whose writes the broker takes and does not answer,
// and since when; "" where there is none. nats-server is silent about a stream
// once a write to its file has failed, until it is started anew.
func (q *Queue) Silent() (stream string, since time.Time) {
	if !q.Connected() {
		return "", since
	}
	for _, w := range []*writer{q.results, q.letters, q.marks} {
		at := time.Unix(0, w.failed.since.Load())
		if at.Before(q.ReconnectedAt()) {
			continue // it was another run of the broker
		}
		if at.UnixNano() != 0 && time.Since(at) > silence {
			return w.stream, at
		}
	}
	return "", since
}

// WriteFailures counts the writes to one stream that failed since Open.
type WriteFailures struct {
	// Refused: the broker had no room, or its storage failed (ErrStorage).
	Refused uint64
	// Unconfirmed: the broker did not answer, or was busy with itself. The
	// write may have happened, and was looked up or repeated.
	Unconfirmed uint64
}

func (f *failures) read() WriteFailures {
	return WriteFailures{Refused: f.refused.Load(), Unconfirmed: f.unconfirmed.Load()}
}

// ResultFailures counts failed writes of results, notes included, since Open.
func (q *Queue) ResultFailures() WriteFailures { return q.results.failed.read() }

// LetterFailures counts failed writes of dead letters since Open.
func (q *Queue) LetterFailures() WriteFailures { return q.letters.failed.read() }
