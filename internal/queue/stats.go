package queue

import (
	"cmp"
	"errors"
	"time"
)

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

// ResultFailures counts failed writes of results, notes included, since Open.
func (q *Queue) ResultFailures() WriteFailures { return q.results.failed.read() }

// LetterFailures counts failed writes of dead letters since Open.
func (q *Queue) LetterFailures() WriteFailures { return q.letters.failed.read() }
