package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// lingerShare is the part of a batch's time for which the next flush waits for company, at
// most mostLinger.
const (
	lingerShare = 8
	mostLinger  = 10 * time.Millisecond
)

// maxWriteBatch bounds one flush. Larger flushes gain little and delay every write in them.
const maxWriteBatch = 256

// writer writes messages to one stream on condition that their subjects have
// not changed. Writes that arrive during a flush go into the next one. A write that
// arrives alone goes alone and at once, unless a batch went before it.
type writer struct {
	pipeline *pipeline
	stream   string
	reader   *reader
	queue    chan *outgoing
	quit     context.Context
	end      context.CancelFunc
	ended    chan struct{} // closed after the last write

	linger time.Duration // how long the next flush waits for more writes
	failed failures
	ends   ends
}

func newWriter(cn *Conn, rd *reader, stream string) *writer {
	w := &writer{pipeline: newPipeline(cn), stream: stream, reader: rd, queue: make(chan *outgoing, 4*maxWriteBatch), ended: make(chan struct{})}
	w.quit, w.end = context.WithCancel(context.Background())
	go w.run()
	return w
}

// put writes msg if its subject's last sequence is expect (0 = absent) and
// returns the new sequence. Errors: settle.ErrStale, errUnconfirmed or
// settle.ErrStorage (wrapped), or the context's.
func (w *writer) put(ctx context.Context, msg *nats.Msg, expect uint64) (uint64, error) {
	return w.write(ctx, w.conditional(msg, expect))
}

// conditional returns a message as put sends it. One that replaces a message which only one server
// has does not go into a batch.
//
// One server with sync_always (nats-server 2.15) syncs a batch once, behind its last
// message. Before that it removes what the batch replaces: it rewrites older blocks, or
// deletes them, and a power cut then takes the confirmed message and the one that replaces
// it (docs/reliability.md). A single write is synced before its predecessor is removed. With
// replicas the synced log of the stream holds the batch.
func (w *writer) conditional(msg *nats.Msg, expect uint64) *outgoing {
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expect, 10))
	msg.Header.Set(jetstream.ExpectedStreamHeader, w.stream)
	return &outgoing{msg: msg, alone: expect > 0 && w.reader.replicas.Load() < 2}
}

// add is put without a condition. One that is not confirmed may be stored, and one that is repeated twice.
func (w *writer) add(ctx context.Context, msg *nats.Msg) (uint64, error) {
	msg.Header.Set(jetstream.ExpectedStreamHeader, w.stream)
	return w.write(ctx, &outgoing{msg: msg})
}

func (w *writer) write(ctx context.Context, out *outgoing) (seq uint64, err error) {
	out.done = make(chan struct{})
	before := w.ends.reached()
	select {
	case w.queue <- out:
	case <-w.quit.Done():
		return 0, errUnconfirmed
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case <-out.done:
		if out.err != nil {
			err = writeError(out.err)
		} else {
			w.ends.stored(before, out.seq)
		}
		w.failed.note(err)
		return out.seq, err
	case <-w.ended:
		return 0, errUnconfirmed
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", errUnconfirmed, ctx.Err())
	}
}

// stop ends the writer once it has written what is queued.
func (w *writer) stop() {
	w.end()
	<-w.ended
}

func (w *writer) run() {
	defer close(w.ended)
	batch := make([]*outgoing, 0, maxWriteBatch)
	for {
		select {
		case out := <-w.queue:
			time.Sleep(w.linger) // after a batch, writes come in crowds, and the first would cost the others its fsync
			batch = w.collect(append(batch[:0], out))
			w.flush(batch)
		case <-w.quit.Done():
			for batch = w.collect(batch[:0]); len(batch) > 0; batch = w.collect(batch[:0]) {
				w.flush(batch)
			}
			return
		}
	}
}

// collect adds the queued writes to batch, without waiting for more.
func (w *writer) collect(batch []*outgoing) []*outgoing {
	size := 0
	for _, out := range batch {
		size += len(out.msg.Data)
	}
	for len(batch) < maxWriteBatch && size < maxBatchBytes {
		select {
		case out := <-w.queue:
			batch = append(batch, out)
			size += len(out.msg.Data)
		default:
			return batch
		}
	}
	return batch
}

func (w *writer) flush(batch []*outgoing) {
	p := publishing{pipeline: w.pipeline, wait: requestTimeout}
	w.linger = min(p.publish(context.Background(), batch)/lingerShare, mostLinger)
}

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
