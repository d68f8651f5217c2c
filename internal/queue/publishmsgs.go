package queue

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// mover publishes a feeder's intents, in atomic batches or singly without waiting in
// between, whichever flushModes finds faster. One goroutine at a time uses it.
type mover struct {
	mu    sync.Mutex
	modes flushModes
}

// publishMsgs publishes intents in their order and returns the broker's answer for
// each. The broker refuses a whole batch for one duplicate. publishMsgs then publishes
// the batch one by one. It judges no answer: the caller knows what a duplicate means.
func (q *Queue) publishMsgs(ctx context.Context, ms []*settle.Message, may func() error) []settle.Published {
	q.mover.mu.Lock()
	defer q.mover.mu.Unlock()
	out := make([]settle.Published, len(ms))
	for start := 0; start < len(ms); {
		end := batchEnd(len(ms), start, func(i int) int { return len(ms[i].Data) })
		if n := q.mover.modes.singles(end - start); n > 0 {
			end = start + n
			q.publishEach(ctx, ms[start:end], out[start:end], may)
		} else {
			q.publishTogether(ctx, ms[start:end], out[start:end], may)
		}
		start = end
	}
	return out
}

// publishTogether publishes an atomic batch, or one by one what the broker does not
// take as a batch.
func (q *Queue) publishTogether(ctx context.Context, ms []*settle.Message, out []settle.Published, may func() error) {
	batch := make([]*nats.Msg, len(ms))
	seen := make(map[string]bool, len(ms))
	for i, m := range ms {
		batch[i] = &nats.Msg{Subject: m.Subject, Header: maps.Clone(nats.Header(m.Header)), Data: m.Data} // the client adds headers of the batch
		seen[m.Subject] = true
	}
	began := time.Now()
	if len(seen) < len(ms) || may() != nil || q.publishAtomic(ctx, batch) != nil {
		q.publishEach(ctx, ms, out, may)
		return
	}
	q.mover.modes.observeTogether(len(ms), time.Since(began))
	for i := range out {
		out[i].Status = settle.Stored
	}
}

// publishEach publishes messages one by one, without waiting in between. Unlike
// PublishMany it asks before it sends each.
func (q *Queue) publishEach(ctx context.Context, msgs []*settle.Message, out []settle.Published, may func() error) {
	began, stored := time.Now(), 0
	q.publishAsync(ctx, len(msgs), func(i int) (*nats.Msg, error) { return natsMsg(msgs[i]), may() }, func(i int, ack *jetstream.PubAck, err error) {
		if err == nil {
			stored++
		}
		out[i].Status, out[i].Err = publishAnswer(q.Conn.n.intents, ack, err)
		out[i].Seq = ackSequence(ack)
	})
	if stored == len(msgs) {
		q.mover.modes.observeSingly(stored, time.Since(began))
	}
}
