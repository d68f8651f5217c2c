package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// natsMsg returns a message to publish.
func natsMsg(m *settle.Message) *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Header: nats.Header(m.Header), Data: m.Data}
}

// ackSequence returns the sequence of an acknowledgement, or 0.
func ackSequence(ack *jetstream.PubAck) uint64 {
	if ack == nil {
		return 0
	}
	return ack.Sequence
}

// publishAnswer returns what JetStream's answer to a publish to this stream means (R6).
func publishAnswer(stream string, ack *jetstream.PubAck, err error) (settle.PublishStatus, error) {
	var api *jetstream.APIError
	switch {
	case err == nil && ack.Duplicate:
		return settle.AlreadyKnown, nil
	case err == nil:
		return settle.Stored, nil
	case !errors.As(err, &api):
		return settle.PublishNone, fmt.Errorf("the broker did not confirm the intent: %w", err)
	case api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, textSubjectIsFull):
		return settle.AlreadyPending, nil
	case api.ErrorCode == codeIDInProcess: // that publish may still be stored
		return settle.PublishNone, fmt.Errorf("%w: %s (code %d)", errUnconfirmed, api.Description, api.ErrorCode)
	case slices.Contains(fullCodes, api.ErrorCode):
		return settle.PublishNone, fmt.Errorf("%w in stream %s: %s", settle.ErrFull, stream, api.Description)
	case api.ErrorCode == codeMessageTooLarge:
		return settle.PublishNone, fmt.Errorf("%w: %s; an order may have at most %d bytes and its headers %d", settle.ErrTooLarge, api.Description, order.MaxBody, settle.HeadersReserve)
	default:
		return settle.PublishNone, fmt.Errorf("the broker refused the intent: %w", err)
	}
}

// PublishResult says what became of one intent of PublishMany.
type PublishResult struct {
	Status settle.PublishStatus
	// Err is set if the intent is not known to be stored. It is settle.ErrFull,
	// settle.ErrTooLarge, or says that the broker did not confirm the intent.
	// Publish that one again with the same ID.
	Err error
}

// PublishMany stores intents in atomic batches, in their order, and returns
// what became of each, in the order of intents. The broker refuses a whole
// batch for one duplicate. PublishMany then publishes the intents of the batch
// one by one, which singles the duplicate out. While the broker is out of
// reach, it publishes unconfirmed intents again, for at most cfg.BrokerWait.
//
// After the end of ctx PublishMany sends nothing more. It returns once the broker has answered what
// was sent, or the connection breaks. So a cancellation after it covers everything that it stored.
func (q *Queue) PublishMany(ctx context.Context, intents []settle.Intent) []PublishResult {
	results := make([]PublishResult, len(intents))
	for start, end := 0, 0; start < len(intents); start = end {
		end = batchEnd(len(intents), start, func(i int) int { return len(intents[i].Body) })
		q.publishBatch(ctx, intents[start:end], results[start:end])
		if err := q.publishAgain(ctx, intents[start:end], results[start:end]); err != nil {
			for i := end; i < len(intents); i++ {
				results[i].Err = err
			}
			break
		}
	}
	return results
}

// batchEnd returns the end of the batch that begins at start, of n messages with these
// sizes. A batch has at least one message.
func batchEnd(n, start int, sizeOf func(i int) int) (end int) {
	size := 0
	for end = start; end < min(start+maxBatch, n); end++ {
		if size += sizeOf(end); size > maxBatchBytes && end > start {
			break
		}
	}
	return end
}

// publishAgain publishes unconfirmed intents again under the same IDs, until
// the broker has confirmed or refused all of them.
func (q *Queue) publishAgain(ctx context.Context, intents []settle.Intent, results []PublishResult) error {
	if !q.Conn.patient() {
		return nil
	}
	w := q.Conn.wait()
	defer w.Done()
	for {
		var open []int
		for i := range results {
			if q.Conn.transient(results[i].Err) {
				open = append(open, i)
			}
		}
		if len(open) == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.Backoff(ctx, results[open[0]].Err); err != nil {
			for _, i := range open {
				results[i].Err = err
			}
			return err
		}
		q.publishSingly(ctx, intents, results, open)
	}
}

// publishBatch publishes one batch.
func (q *Queue) publishBatch(ctx context.Context, intents []settle.Intent, results []PublishResult) {
	msgs := make([]*nats.Msg, 0, len(intents))
	index := make([]int, 0, len(intents))
	seen := make(map[string]bool, len(intents))
	var again []int // intents for an order_no that the batch holds already
	for i, in := range intents {
		if err := q.Producer.CheckSize(in); err != nil {
			results[i].Err = err
			continue
		}
		msg := natsMsg(q.Producer.IntentMessage(in))
		if !in.Waits() && seen[msg.Subject] {
			again = append(again, i)
			continue
		}
		seen[msg.Subject] = true
		msgs, index = append(msgs, msg), append(index, i)
	}
	if len(msgs) == 0 {
		return
	}
	if q.publishWhole(ctx, msgs) == nil {
		for _, i := range index {
			results[i].Status = settle.Stored
		}
	} else {
		q.publishSingly(ctx, intents, results, index)
	}
	q.publishSingly(ctx, intents, results, again) // the broker judges them now that the others are stored
}

// publishWhole publishes one atomic batch, unless ctx has ended. If ctx ends meanwhile, publishWhole
// still waits for the answer.
func (q *Queue) publishWhole(ctx context.Context, msgs []*nats.Msg) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := q.Conn.outlive(ctx)
	defer cancel()
	return q.publishAtomic(ctx, msgs)
}

// publishAtomic publishes one atomic batch. It bounds the wait for the answer
// itself: the library does that only if ctx has no deadline, and an answer that
// was lost with its connection never comes.
func (q *Queue) publishAtomic(ctx context.Context, msgs []*nats.Msg) error {
	ctx, cancel := q.Conn.link.bound(ctx)
	defer cancel()
	_, err := jetstreamext.PublishMsgBatch(ctx, q.Conn.js, msgs)
	return err
}

// publishSingly publishes the intents of a refused or unconfirmed batch one by one, without
// waiting in between. It waits for all places together that settled intents still have (R14).
func (q *Queue) publishSingly(ctx context.Context, intents []settle.Intent, results []PublishResult, index []int) {
	for try := 0; len(index) > 0; try++ {
		index = q.publishOnce(ctx, intents, results, index)
		if try == settle.FreedTries {
			for _, i := range index {
				results[i].Status = settle.AlreadyPending
			}
			return
		}
		if len(index) > 0 && pause(ctx, settle.FreedPause) != nil {
			for _, i := range index {
				results[i].Err = ctx.Err()
			}
			return
		}
	}
}

// publishOnce publishes some intents, and returns those to publish again.
func (q *Queue) publishOnce(ctx context.Context, intents []settle.Intent, results []PublishResult, index []int) (again []int) {
	message := func(k int) (*nats.Msg, error) {
		return natsMsg(q.Producer.IntentMessage(intents[index[k]])), ctx.Err()
	}
	answers, cancel := q.Conn.outlive(ctx)
	defer cancel()
	q.publishAsync(answers, len(index), message, func(k int, ack *jetstream.PubAck, err error) {
		i := index[k]
		results[i].Status, results[i].Err = q.answered(ctx, intents[i], ack, err)
		if results[i] == (PublishResult{}) {
			again = append(again, i)
		}
	})
	return again
}

// publishAsync publishes n messages without waiting in between, and then passes the
// answer to each to answered: a confirmation, or an error. A message whose own error
// is set is not sent.
func (q *Queue) publishAsync(ctx context.Context, n int, message func(i int) (*nats.Msg, error), answered func(i int, ack *jetstream.PubAck, err error)) {
	futures, errs := make([]jetstream.PubAckFuture, n), make([]error, n)
	for i := range n {
		msg, err := message(i)
		if errs[i] = err; err == nil {
			futures[i], errs[i] = q.Conn.js.PublishMsgAsync(msg, jetstream.WithStallWait(requestTimeout))
		}
	}
	deadline := time.NewTimer(2 * requestTimeout)
	defer deadline.Stop()
	for i := range n {
		if errs[i] != nil {
			answered(i, nil, errs[i])
			continue
		}
		select {
		case ack := <-futures[i].Ok():
			answered(i, ack, nil)
		case err := <-futures[i].Err():
			answered(i, nil, err)
		case <-ctx.Done():
			answered(i, nil, ctx.Err())
		case <-deadline.C:
			answered(i, nil, fmt.Errorf("no answer within %s", 2*requestTimeout))
			deadline.Reset(0)
		}
	}
}

// StreamOf returns the name of the stream that takes a new intent: the waiting room's if
// it waits.
func (q *Queue) StreamOf(waits bool) string { return q.Conn.n.takes(waits) }

// answered returns what became of one intent: PublishNone without an error if it must be
// published again.
func (q *Queue) answered(ctx context.Context, in settle.Intent, ack *jetstream.PubAck, err error) (settle.PublishStatus, error) {
	p, err := publishAnswer(q.Conn.n.takes(in.Waits()), ack, err)
	if err != nil || p == settle.Stored {
		return p, err
	}
	return q.Producer.Verify(ctx, in, p, ackSequence(ack))
}

// maxBatch and maxBatchBytes bound one atomic batch. The server takes up to 1,000
// messages and stages all of them until the last one has arrived.
const (
	maxBatch      = 500
	maxBatchBytes = 4 << 20
)
