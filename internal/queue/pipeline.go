package queue

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/settle"
)

// maxBatch and maxBatchBytes bound one atomic batch. The server takes up to 1,000
// messages and stages all of them until the last one has arrived.
const (
	maxBatch      = 500
	maxBatchBytes = 4 << 20
)

// A refused batch of at least manyRefused messages is repeated in halves, up to mostRefused times
// in one call.
const (
	manyRefused = 16
	mostRefused = 12
)

// Messages that no stream took, because its leader was away, are sent again after leaderPause,
// leaderTries times.
const (
	leaderTries = 2
	leaderPause = 250 * time.Millisecond
)

// flushMode is how messages are sent that may share a batch.
type flushMode uint8

const (
	faster flushMode = iota // whichever flushModes finds faster
	together
	singly
)

// pipeline publishes messages to one stream: in atomic batches, or singly without waiting in
// between. Callers take turns.
type pipeline struct {
	conn  *Conn
	turn  sync.Mutex
	modes flushModes
}

func newPipeline(cn *Conn) *pipeline {
	return &pipeline{conn: cn, modes: flushModes{roundTrip: cn.roundTrip}}
}

// publishing is one use of a pipeline.
type publishing struct {
	*pipeline
	// wait bounds the wait for the answers to single messages.
	wait time.Duration
	// may is asked before each single message and each batch; nil = all may be sent.
	may  func() error
	mode flushMode
	// denied is set where the caller decides what becomes of messages that may be stored. Others
	// are sent again singly: their IDs or their conditions make that safe.
	denied *denied

	refused int // batches so far
}

// publish sends messages in their order and finishes each. Those that cannot share a batch with
// an earlier one come last. It returns how long the last batch took; 0 = none was stored.
func (p *publishing) publish(ctx context.Context, out []*outgoing) (took time.Duration) {
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.may == nil {
		p.may = func() error { return nil }
	}
	alone, shared, again := p.divide(out)
	p.sendSingly(ctx, alone)
	for start, end := 0, 0; start < len(shared); start = end {
		end = batchEnd(shared, start)
		n := start + p.singles(end-start)
		p.sendSingly(ctx, shared[start:n])
		took = p.sendTogether(ctx, shared[n:end])
	}
	p.sendSingly(ctx, again) // the broker judges them now that the others are stored
	return took
}

// singles returns how many of n messages go singly.
func (p *publishing) singles(n int) int {
	switch {
	case n < 2 || p.mode == singly:
		return n
	case p.mode == together:
		return 0
	}
	return p.modes.singles(n)
}

// divide returns the messages that must not go into a batch, those that may share one, and those
// that repeat the subject or the ID of one of them: the broker would refuse the batch, or store
// two messages on one condition. Only in the waiting room, messages share subjects.
func (p *publishing) divide(out []*outgoing) (alone, shared, again []*outgoing) {
	if len(out) == 1 {
		return out, nil, nil
	}
	seen := make(map[string]bool, 2*len(out))
	for _, o := range out {
		subject, id := o.msg.Subject, o.msg.Header.Get(jetstream.MsgIDHeader)
		waits := strings.HasPrefix(subject, p.conn.n.waitPre)
		switch {
		case o.alone:
			alone = append(alone, o)
		case !waits && seen[subject], id != "" && seen["id "+id]:
			again = append(again, o)
		default:
			seen[subject], seen["id "+id] = true, true
			shared = append(shared, o)
		}
	}
	return alone, shared, again
}

// batchEnd returns the end of the batch that begins at start. A batch has at least one message.
func batchEnd(out []*outgoing, start int) (end int) {
	size := 0
	for end = start; end < min(start+maxBatch, len(out)); end++ {
		if size += len(out[end].msg.Data); size > maxBatchBytes && end > start {
			break
		}
	}
	return end
}

// sendSingly sends messages without waiting in between.
func (p *publishing) sendSingly(ctx context.Context, out []*outgoing) {
	for try := 0; len(out) > 0; try++ {
		began := time.Now()
		if p.conn.acks.send(ctx, out, p.wait, p.may) {
			p.modes.observeSingly(len(out), time.Since(began))
		}
		var again []*outgoing
		for _, o := range out {
			if p.denied != nil && MayBeStored(o.err) {
				o.err = cmp.Or(p.denied.of(o.msg.Subject), o.err)
			}
			if o.done == nil && errors.Is(o.err, jetstream.ErrNoStreamResponse) {
				again = append(again, o)
			}
		}
		if out = again; try == leaderTries || len(out) > 0 && settle.Sleep(ctx, leaderPause) != nil {
			return
		}
	}
}

// sendTogether publishes an atomic batch, and returns how long that took; 0 = it was not stored as such.
// The broker refuses all of it for one message, which sendTogether singles out by halves: one repeated
// order must not cost the others an fsync each.
func (p *publishing) sendTogether(ctx context.Context, out []*outgoing) (took time.Duration) {
	if len(out) == 0 {
		return 0
	}
	began := time.Now()
	first, err := p.atomic(ctx, out)
	switch half := len(out) / 2; {
	case err == nil:
		took = time.Since(began)
		p.modes.observeTogether(len(out), took)
		for i, o := range out {
			o.finish(first+uint64(i), false, nil)
		}
	case p.denied != nil && !refused(err):
		subjects := make([]string, len(out))
		for i, o := range out {
			subjects[i] = o.msg.Subject
		}
		err = cmp.Or(p.denied.of(subjects...), err) // without one of its messages, the broker stores nothing of a batch
		for _, o := range out {
			o.finish(0, false, err)
		}
	case refused(err) && len(out) >= manyRefused && p.refused < mostRefused:
		p.refused++
		p.sendTogether(ctx, out[:half])
		p.sendTogether(ctx, out[half:])
	default:
		p.sendSingly(ctx, out)
	}
	return took
}

// atomic publishes an atomic batch and returns the sequence of its first message.
func (p *publishing) atomic(ctx context.Context, out []*outgoing) (first uint64, err error) {
	if err := p.may(); err != nil {
		return 0, err
	}
	ctx, cancel := p.conn.link.bound(ctx)
	defer cancel()
	msgs := make([]*nats.Msg, len(out))
	for i, o := range out { // the client adds headers of the batch; a message may be sent again without
		msgs[i] = nats.NewMsg(o.msg.Subject)
		msgs[i].Data = o.msg.Data
		maps.Copy(msgs[i].Header, o.msg.Header)
	}
	ack, err := jetstreamext.PublishMsgBatch(ctx, p.conn.js, msgs, jetstreamext.BatchFlowControl{AckTimeout: requestTimeout})
	if err != nil {
		return 0, err
	}
	return ack.Sequence - uint64(len(out)) + 1, nil
}

// refused reports whether JetStream answered, and stored nothing.
func refused(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api)
}

// Every flush with a number divisible by sampleEvery samples the slower mode, and
// before the first of those every flush whose number is a power of two: what a
// mode costs is seldom clear at once.
const (
	sampleEvery = 512
	// firstBatch is the size from which a batch is tried, and sampled.
	firstBatch = 16
	// fewSingles is how many single writes are sampled at least. More of them are as
	// long as they should take no longer than a batch: each may take tens of
	// milliseconds on a slow disk.
	fewSingles = 4
)

// flushModes measures which mode is faster with this broker: one atomic batch, or single
// writes, one after another, all sent before the first answer arrives. Single writes cost
// an fsync each, or a round of a cluster's consensus. A batch costs a few, whatever its
// size: the broker stages it in files of its own. Where nothing is synced, that costs as
// much as some tens of single writes. A client cannot ask the broker, so flushModes
// measures. One goroutine uses it.
type flushModes struct {
	roundTrip func() time.Duration // to the broker and back

	away    recent   // round trips
	each    recent   // what one of several single writes takes, without the round trip
	batches [4]batch // the last ones
	batched int      // how many there were
	flushes int
}

// batch is how long an atomic batch of n writes took.
type batch struct {
	n    int
	took time.Duration
}

// singles returns how many of n writes the next flush sends singly. It sends the
// others together.
func (m *flushModes) singles(n int) int {
	if n < firstBatch && m.batched == 0 {
		return n
	}
	m.flushes++
	sample := m.flushes%sampleEvery == 0 || m.flushes < sampleEvery && bits.OnesCount(uint(m.flushes)) == 1
	switch faster := m.singly(n) < m.together(n); {
	case m.batched == 0:
		return 0
	case m.each.n == 0:
		return m.sample(n, fewSingles)
	case faster && sample && n >= firstBatch:
		return 0
	case faster:
		return n
	case sample:
		return m.sample(n, max(fewSingles, int(m.together(n)/max(m.each.least(), 1))))
	default:
		return 0
	}
}

// sample returns how many of n writes go singly if a few are sampled: all, if a batch of
// one would be left.
func (m *flushModes) sample(n, few int) int {
	m.away.add(m.roundTrip())
	if n < few+2 {
		return n
	}
	return few
}

// singly returns about how long n single writes take.
func (m *flushModes) singly(n int) time.Duration {
	return m.away.least() + time.Duration(n)*m.each.least()
}

// together returns about how long an atomic batch of n writes takes: as long as a larger one
// did, or as a smaller one, of whose time a half depends on its size.
func (m *flushModes) together(n int) (least time.Duration) {
	for i, b := range m.batches[:min(m.batched, len(m.batches))] {
		took := (b.took + b.took*time.Duration(max(n, b.n))/time.Duration(b.n)) / 2
		if i == 0 || took < least {
			least = took
		}
	}
	return least
}

// observeSingly notes that a flush of n single writes was answered after a time. The
// time of the first answer says nothing about one write: the broker answers all writes that
// it reads at once together. Values that promised much less are forgotten: their round trip
// was disturbed, and the next thousand writes would take seconds on a slow disk.
func (m *flushModes) observeSingly(n int, took time.Duration) {
	each := (took - m.away.least()) / time.Duration(n)
	if n < fewSingles || m.away.n == 0 || each <= 0 {
		return
	}
	if took > 2*m.singly(n) {
		m.each = recent{}
	}
	m.each.add(each)
}

// observeTogether notes an atomic batch of n writes.
func (m *flushModes) observeTogether(n int, took time.Duration) {
	m.batches[m.batched%len(m.batches)] = batch{n, took}
	m.batched++
}

// recent holds the last values. The least of them is what something takes when
// nothing else disturbs it, such as the start of a program.
type recent struct {
	values [4]time.Duration
	n      int
}

func (r *recent) add(d time.Duration) {
	r.values[r.n%len(r.values)] = d
	r.n++
}

// least returns 0 if there are no values.
func (r *recent) least() time.Duration {
	if r.n == 0 {
		return 0
	}
	return slices.Min(r.values[:min(r.n, len(r.values))])
}
