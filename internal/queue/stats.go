package queue

import (
	"cmp"
	"errors"
	"sync/atomic"
	"time"

	"orderpost/internal/settle"
)

// failures counts the unconfirmed and refused writes to one stream. The writers
// repeat all of them. A stale write is no failure.
type failures struct {
	refused, unconfirmed atomic.Uint64
	// since is when the current run of unanswered writes began, in Unix
	// nanoseconds; 0 = the last write was answered.
	since atomic.Int64
}

// note counts the result of a write.
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

// silence is how long the broker may leave writes unanswered on an intact
// connection before that is reported.
const silence = 2 * requestTimeout

// Silent returns the stream whose writes the broker does not answer, since when, and why as
// far as is known; "" if there is none. nats-server stops answering for a stream
// once a write to its file has failed, until the server is restarted. It never answers what
// its permissions forbid.
func (q *Queue) Silent() (stream string, since time.Time, why error) {
	if !q.Conn.Connected() {
		return "", since, nil
	}
	for _, w := range []*writer{q.results, q.letters, q.marks} {
		at := time.Unix(0, w.failed.since.Load())
		if at.Before(q.Worker.ReconnectedAt()) {
			continue // before the reconnect, possibly to another run of the broker
		}
		if at.UnixNano() != 0 && time.Since(at) > silence {
			return w.stream, at, cmp.Or(q.Conn.outages.refusedSince(at.Add(-requestTimeout)), errSilent)
		}
	}
	return "", since, nil
}

var errSilent = errors.New("its disk may be full or failing. A NATS server gives up a stream after one failed write: look at its log, make room, and restart it")

// WriteFailures counts the writes to one stream that failed since Open.
type WriteFailures struct {
	// Refused counts writes for which the broker had no room, or its storage
	// failed (settle.ErrStorage).
	Refused uint64
	// Unconfirmed counts writes that the broker did not answer, or that it was
	// too busy for. They may have happened, and were looked up or repeated.
	Unconfirmed uint64
}

func (f *failures) read() WriteFailures {
	return WriteFailures{Refused: f.refused.Load(), Unconfirmed: f.unconfirmed.Load()}
}

// ResultFailures counts failed writes of results, notes included, since Open.
func (q *Queue) ResultFailures() WriteFailures { return q.results.failed.read() }

// LetterFailures counts failed writes of dead letters since Open.
func (q *Queue) LetterFailures() WriteFailures { return q.letters.failed.read() }
