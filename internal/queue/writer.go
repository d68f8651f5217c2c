package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/settle"
)

// lingerShare is the part of a batch's time for which the next flush waits for company, at
// most mostLinger.
const (
	lingerShare = 8
	mostLinger  = 10 * time.Millisecond
)

// writer writes messages to one stream on condition that their subjects have
// not changed. Writes that arrive during a flush go into the next one, in one
// atomic batch or singly without waiting in between, whichever flushModes finds
// faster. A write that arrives alone goes alone and at once, unless a batch went before it.
// One that replaces a message which only one server has goes alone, too, see apart.
type writer struct {
	js       jetstream.JetStream
	link     *link
	stream   string
	replicas *replicas
	acks     acks
	queue    chan *write
	quit     chan struct{}
	done     sync.WaitGroup
	once     sync.Once
	ended    chan struct{} // closed after the last write

	modes   flushModes
	linger  time.Duration // how long the next flush waits for more writes
	batches atomic.Uint64 // atomic batches that were stored
	failed  failures
	ends    ends
}

func newWriter(cn *Conn, rd *reader, stream string) *writer {
	w := makeWriter(cn, rd, stream)
	w.done.Add(1)
	go w.run()
	return w
}

// makeWriter returns a writer that does not run yet.
func makeWriter(cn *Conn, rd *reader, stream string) *writer {
	return &writer{js: cn.js, link: &cn.link, stream: stream, replicas: &rd.replicas, acks: acks{nc: cn.nc, link: &cn.link}, queue: make(chan *write, 4*maxWriteBatch), quit: make(chan struct{}), ended: make(chan struct{}), modes: flushModes{roundTrip: cn.roundTrip}}
}

// put writes msg if its subject's last sequence is expect (0 = absent) and
// returns the new sequence. Errors: settle.ErrStale, errUnconfirmed or
// settle.ErrStorage (wrapped), or the context's.
func (w *writer) put(ctx context.Context, msg *nats.Msg, expect uint64) (uint64, error) {
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(expect, 10))
	return w.write(ctx, msg, expect > 0)
}

// add is put without a condition. One that is not confirmed may be stored, and one that is repeated twice.
func (w *writer) add(ctx context.Context, msg *nats.Msg) (uint64, error) {
	return w.write(ctx, msg, false)
}

func (w *writer) write(ctx context.Context, msg *nats.Msg, replaces bool) (uint64, error) {
	msg.Header.Set(jetstream.ExpectedStreamHeader, w.stream)
	req := &write{msg: msg, replaces: replaces, done: make(chan struct{})}
	before := w.ends.reached()
	select {
	case w.queue <- req:
	case <-w.quit:
		return 0, errUnconfirmed
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case <-req.done:
		w.failed.note(req.err)
		if req.err == nil {
			w.ends.stored(before, req.seq)
		}
		return req.seq, req.err
	case <-w.ended:
		return 0, errUnconfirmed
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", errUnconfirmed, ctx.Err())
	}
}

// stop ends the writer once it has written what is queued.
func (w *writer) stop() {
	w.once.Do(func() { close(w.quit) })
	w.done.Wait()
}

func (w *writer) run() {
	defer w.done.Done()
	defer close(w.ended)
	batch := make([]*write, 0, maxWriteBatch)
	for {
		select {
		case req := <-w.queue:
			time.Sleep(w.linger) // after a batch, writes come in crowds, and the first would cost the others its fsync
			batch = w.collect(append(batch[:0], req))
			w.flush(batch)
		case <-w.quit:
			for batch = w.collect(batch[:0]); len(batch) > 0; batch = w.collect(batch[:0]) {
				w.flush(batch)
			}
			return
		}
	}
}

// collect adds the queued writes to batch, without waiting for more.
func (w *writer) collect(batch []*write) []*write {
	size := 0
	for _, req := range batch {
		size += len(req.msg.Data)
	}
	for len(batch) < maxWriteBatch && size < maxWriteBytes {
		select {
		case req := <-w.queue:
			batch = append(batch, req)
			size += len(req.msg.Data)
		default:
			return batch
		}
	}
	return batch
}

func (w *writer) flush(batch []*write) {
	w.linger = 0
	n := w.apart(batch)
	n += w.modes.singles(len(batch) - n)
	if n > 0 {
		w.flushSingly(batch[:n])
	}
	if batch = batch[n:]; len(batch) == 0 {
		return
	}
	began := time.Now()
	if !w.flushTogether(batch) {
		w.flushSingly(batch)
		return
	}
	took := time.Since(began)
	w.modes.observeTogether(len(batch), took)
	w.linger = min(took/lingerShare, mostLinger)
}

// apart moves the writes that must not go into an atomic batch to the front, and returns
// how many they are: those that replace a message which has no replica.
//
// One server with sync_always (nats-server 2.15) syncs a batch once, behind its last
// message. Before that it removes what the batch replaces: it rewrites older blocks, or
// deletes them, and a power cut then takes the confirmed message and the one that replaces
// it (docs/reliability.md). A single write is synced before its predecessor is removed. With
// replicas the synced log of the stream holds the batch.
func (w *writer) apart(batch []*write) (n int) {
	if w.replicas.most.Load() > 1 || batches == "all" {
		return 0
	}
	for i, req := range batch {
		if req.replaces {
			batch[i], batch[n] = batch[n], req
			n++
		}
	}
	return n
}

func (w *writer) flushSingly(batch []*write) {
	began := time.Now()
	if w.acks.flush(batch) {
		w.modes.observeSingly(len(batch), time.Since(began))
	}
}

// flushTogether publishes an atomic batch. false means that the broker refused
// the batch and stored nothing of it, or did not answer. The conditions make it
// safe to repeat the writes.
func (w *writer) flushTogether(batch []*write) bool {
	ctx, cancel := w.link.bound(context.Background())
	defer cancel()
	msgs := make([]*nats.Msg, len(batch))
	subjects := make(map[string]bool, len(batch))
	for i, req := range batch {
		msgs[i] = cloneMsg(req.msg)
		if subjects[req.msg.Subject] {
			return false
		}
		subjects[req.msg.Subject] = true
	}
	ack, err := jetstreamext.PublishMsgBatch(ctx, w.js, msgs, jetstreamext.BatchFlowControl{AckTimeout: requestTimeout})
	if err != nil {
		return false
	}
	w.batches.Add(1)
	first := ack.Sequence - uint64(len(batch)) + 1
	for i, req := range batch {
		req.finish(first+uint64(i), nil)
	}
	return true
}

// cloneMsg copies msg without its batch headers, in case msg must be sent alone
// later.
func cloneMsg(msg *nats.Msg) *nats.Msg {
	c := nats.NewMsg(msg.Subject)
	c.Data = msg.Data
	for k, v := range msg.Header {
		c.Header[k] = v
	}
	return c
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
