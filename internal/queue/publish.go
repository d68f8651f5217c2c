package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

func ackSequence(ack *jetstream.PubAck) uint64 {
	if ack == nil {
		return 0
	}
	return ack.Sequence
}

func publishAnswer(ack *jetstream.PubAck, err error) (settle.Published, error) {
	var api *jetstream.APIError
	switch {
	case err == nil && ack.Duplicate:
		return settle.AlreadyKnown, nil
	case err == nil:
		return settle.Stored, nil
	case !errors.As(err, &api):
		return settle.PublishedNone, fmt.Errorf("intent not confirmed by the broker: %w", err)
	case api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, textSubjectIsFull):
		return settle.AlreadyPending, nil
	case api.ErrorCode == codeStoreFailed || api.ErrorCode == codeInsufficient || api.ErrorCode == codeStorageExceeded:
		return settle.PublishedNone, fmt.Errorf("%w: %s", settle.ErrFull, api.Description)
	case api.ErrorCode == codeMessageTooLarge:
		return settle.PublishedNone, fmt.Errorf("%w: %s; an order may have %d bytes, its headers %d", settle.ErrTooLarge, api.Description, order.MaxBody, settle.HeadersReserve)
	default:
		return settle.PublishedNone, fmt.Errorf("intent refused by the broker: %w", err)
	}
}

// PublishResult is the fate of one intent of PublishMany.
type PublishResult struct {
	Published settle.Published
	// Err is set where it is not known to be stored: settle.ErrFull, settle.ErrTooLarge, or
	// that the broker's confirmation did not come (publish again with the same
	// ID).
	Err error
}

// PublishMany stores intents in atomic batches, in their order, and says what
// became of each. A batch that the broker refuses (one duplicate is enough) is
// published one by one, so that the duplicate is singled out and the rest is
// stored. What is not confirmed since the broker is out of reach is published
// again, for cfg.BrokerWait at most. The results have the length of intents.
func (q *Queue) PublishMany(ctx context.Context, intents []settle.Intent) []PublishResult {
	results := make([]PublishResult, len(intents))
	for start, end := 0, 0; start < len(intents); start = end {
		end = batchEnd(intents, start)
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

// batchEnd is where the batch ends that begins at start. It has one intent at
// least.
func batchEnd(intents []settle.Intent, start int) (end int) {
	size := 0
	for end = start; end < min(start+maxBatch, len(intents)); end++ {
		if size += len(intents[end].Body); size > maxBatchBytes && end > start {
			break
		}
	}
	return end
}

// publishAgain publishes what an outage left unconfirmed, under the same IDs,
// until all of it is confirmed or refused.
func (q *Queue) publishAgain(ctx context.Context, intents []settle.Intent, results []PublishResult) error {
	if !q.patient() {
		return nil
	}
	w := q.wait()
	defer w.over()
	for {
		var open []int
		for i := range results {
			if q.passing(results[i].Err) {
				open = append(open, i)
			}
		}
		if len(open) == 0 || ctx.Err() != nil {
			return ctx.Err()
		}
		if err := w.again(ctx, results[open[0]].Err); err != nil {
			for _, i := range open {
				results[i].Err = err
			}
			return err
		}
		q.publishSingly(ctx, intents, results, open)
	}
}

func (q *Queue) publishBatch(ctx context.Context, intents []settle.Intent, results []PublishResult) {
	msgs := make([]*nats.Msg, 0, len(intents))
	index := make([]int, 0, len(intents))
	seen := make(map[string]bool, len(intents))
	var again []int // intents for an order_no that the batch holds already
	for i, in := range intents {
		if err := q.CheckSize(in); err != nil {
			results[i].Err = err
			continue
		}
		msg := natsMsg(q.IntentMessage(in))
		if seen[msg.Subject] {
			again = append(again, i)
			continue
		}
		seen[msg.Subject] = true
		msgs, index = append(msgs, msg), append(index, i)
	}
	if len(msgs) == 0 {
		return
	}
	if q.publishAtomic(ctx, msgs) == nil {
		for _, i := range index {
			results[i].Published = settle.Stored
		}
	} else {
		q.publishSingly(ctx, intents, results, index)
	}
	q.publishSingly(ctx, intents, results, again) // the broker says what they are, now that the others are there
}

// publishAtomic bounds the wait for the broker's answer itself: the library
// does so only where ctx has no deadline, and an answer that was lost with its
// connection never comes.
func (q *Queue) publishAtomic(ctx context.Context, msgs []*nats.Msg) error {
	ctx, cancel := q.link.bound(ctx)
	defer cancel()
	_, err := jetstreamext.PublishMsgBatch(ctx, q.js, msgs)
	return err
}

// publishSingly sends the intents of a refused or unconfirmed batch one by
// one, without waiting in between.
func (q *Queue) publishSingly(ctx context.Context, intents []settle.Intent, results []PublishResult, index []int) {
	futures := make([]jetstream.PubAckFuture, len(index))
	for k, i := range index {
		future, err := q.js.PublishMsgAsync(natsMsg(q.IntentMessage(intents[i])), jetstream.WithStallWait(requestTimeout))
		if err != nil {
			results[i].Err = err
			continue
		}
		futures[k] = future
	}
	deadline := time.NewTimer(2 * requestTimeout)
	defer deadline.Stop()
	for k, i := range index {
		if futures[k] == nil {
			continue
		}
		select {
		case ack := <-futures[k].Ok():
			results[i].Published, results[i].Err = q.answered(ctx, intents[i], ack, nil)
		case err := <-futures[k].Err():
			results[i].Published, results[i].Err = q.answered(ctx, intents[i], nil, err)
		case <-ctx.Done():
			results[i].Err = ctx.Err()
		case <-deadline.C:
			results[i].Err = fmt.Errorf("intent not confirmed by the broker within %s", 2*requestTimeout)
			deadline.Reset(0)
		}
	}
}

// answered reads one answer of many. What needs a second try gets it at once.
func (q *Queue) answered(ctx context.Context, in settle.Intent, ack *jetstream.PubAck, err error) (settle.Published, error) {
	p, err := publishAnswer(ack, err)
	if err != nil || p == settle.Stored {
		return p, err
	}
	if p, err = q.Verify(ctx, in, p, ackSequence(ack)); p == settle.PublishedNone && err == nil {
		return q.Publish(ctx, in)
	}
	return p, err
}

// Codes of JetStream's API errors that mean something here.
const (
	codeStoreFailed          = 10077 // "already pending" and "stream full" share it: the text tells
	codeWrongLastSeq         = 10071
	codeWrongLastSeqConstant = 10164 // with replicas: another write to the subject is on its way
	codeInsufficient         = 10023
	codeStorageExceeded      = 10047
	codeClusterNotAvailable  = 10008
	codeStreamOffline        = 10118
	codeTooManyRequests      = 10167
	codeMessageTooLarge      = 10054 // larger than the stream's max_msg_size
	textSubjectIsFull        = "maximum messages per subject exceeded"
)

// maxBatch and maxBatchBytes bound one atomic batch; the server takes 1000
// messages, and keeps all of them beside the stream until the last one is there.
const (
	maxBatch      = 500
	maxBatchBytes = 4 << 20
)
