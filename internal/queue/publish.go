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
)

// Published says what became of one intent that was published.
type Published uint8

// What the broker said to an intent.
const (
	PublishedNone Published = iota
	// Stored: the intent is in the stream; orderpost answers for it from now on.
	Stored
	// AlreadyPending: an intent for this order_no is waiting or being worked
	// on; this one was not stored.
	AlreadyPending
	// AlreadyKnown: an intent with this ID was stored a moment ago (the
	// broker's duplicate window); this one was not stored again.
	AlreadyKnown
)

var publishedNames = [...]string{"", "stored", "already-pending", "already-known"}

// String gives the word used in summaries.
func (p Published) String() string { return publishedNames[p] }

// ErrFull is returned when the intents stream takes no more (its limits, or
// the disk). Nothing was stored; try again later.
var ErrFull = errors.New("the intents stream is full")

// Codes of JetStream's API errors that mean something here.
const (
	codeStoreFailed   = 10077 // "already pending" and "stream full" share it: the text tells
	codeWrongLastSeq  = 10071
	codeInsufficient  = 10023
	textSubjectIsFull = "maximum messages per subject exceeded"
)

// maxBatch is how many intents go into one atomic batch; the server takes 1000.
const maxBatch = 500

// PublishResult is the fate of one intent of PublishMany.
type PublishResult struct {
	Published Published
	// Err is set where it is not known to be stored: ErrFull, ErrTooLarge, or
	// that the broker's confirmation did not come (publish again with the same
	// ID).
	Err error
}

// Publish stores one intent and waits until JetStream confirmed it.
func (q *Queue) Publish(ctx context.Context, in Intent) (Published, error) {
	if err := q.checkSize(in); err != nil {
		return PublishedNone, err
	}
	ack, err := q.js.PublishMsg(ctx, q.intentMsg(in), jetstream.WithRetryAttempts(5))
	return publishAnswer(ack, err)
}

func publishAnswer(ack *jetstream.PubAck, err error) (Published, error) {
	var api *jetstream.APIError
	switch {
	case err == nil && ack.Duplicate:
		return AlreadyKnown, nil
	case err == nil:
		return Stored, nil
	case !errors.As(err, &api):
		return PublishedNone, fmt.Errorf("intent not confirmed by the broker: %w", err)
	case api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, textSubjectIsFull):
		return AlreadyPending, nil
	case api.ErrorCode == codeStoreFailed || api.ErrorCode == codeInsufficient:
		return PublishedNone, fmt.Errorf("%w: %s", ErrFull, api.Description)
	default:
		return PublishedNone, fmt.Errorf("intent refused by the broker: %w", err)
	}
}

// PublishMany stores intents in atomic batches, in their order, and says what
// became of each. A batch that the broker refuses (one duplicate is enough) is
// published one by one, so that the duplicate is singled out and the rest is
// stored. The results have the length of intents.
func (q *Queue) PublishMany(ctx context.Context, intents []Intent) []PublishResult {
	results := make([]PublishResult, len(intents))
	for start := 0; start < len(intents); start += maxBatch {
		end := min(start+maxBatch, len(intents))
		q.publishBatch(ctx, intents[start:end], results[start:end])
	}
	return results
}

func (q *Queue) publishBatch(ctx context.Context, intents []Intent, results []PublishResult) {
	msgs := make([]*nats.Msg, 0, len(intents))
	index := make([]int, 0, len(intents))
	seen := make(map[string]bool, len(intents))
	for i, in := range intents {
		if err := q.checkSize(in); err != nil {
			results[i].Err = err
			continue
		}
		msg := q.intentMsg(in)
		if seen[msg.Subject] {
			results[i].Published = AlreadyPending
			continue
		}
		seen[msg.Subject] = true
		msgs, index = append(msgs, msg), append(index, i)
	}
	if len(msgs) == 0 {
		return
	}
	if _, err := jetstreamext.PublishMsgBatch(ctx, q.js, msgs); err == nil {
		for _, i := range index {
			results[i].Published = Stored
		}
		return
	}
	q.publishSingly(ctx, intents, results, index)
}

// publishSingly sends the intents of a refused or unconfirmed batch one by
// one, without waiting in between.
func (q *Queue) publishSingly(ctx context.Context, intents []Intent, results []PublishResult, index []int) {
	futures := make([]jetstream.PubAckFuture, len(index))
	for k, i := range index {
		future, err := q.js.PublishMsgAsync(q.intentMsg(intents[i]), jetstream.WithStallWait(requestTimeout))
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
			results[i].Published, results[i].Err = publishAnswer(ack, nil)
		case err := <-futures[k].Err():
			results[i].Published, results[i].Err = publishAnswer(nil, err)
		case <-ctx.Done():
			results[i].Err = ctx.Err()
		case <-deadline.C:
			results[i].Err = fmt.Errorf("intent not confirmed by the broker within %s", 2*requestTimeout)
			deadline.Reset(0)
		}
	}
}
