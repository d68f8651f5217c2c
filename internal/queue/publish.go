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
	// broker's duplicate window) and is waiting or settled; this one was not
	// stored again.
	AlreadyKnown
)

var publishedNames = [...]string{"", "stored", "already-pending", "already-known"}

// String gives the word used in summaries.
func (p Published) String() string { return publishedNames[p] }

// ErrFull is returned when the intents stream takes no more (its limits, or
// the disk). Nothing was stored; try again later.
var ErrFull = errors.New("the intents stream is full")

// ErrSwallowed is returned where the broker takes an intent for a duplicate
// although the one that it remembers is neither waiting nor the one that its
// order_no's result is about: somebody removed it, another submission was
// settled since, or the ID was used for another order. Nothing was stored; look
// at the result, and publish under another ID if the order is still wanted.
var ErrSwallowed = errors.New("the broker took the intent for a duplicate of one that is gone")

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
	textSubjectIsFull        = "maximum messages per subject exceeded"
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
	for try := 0; ; try++ {
		p, seq, err := q.store.PublishIntent(ctx, q.intentMsg(in))
		if err != nil || p == Stored {
			return p, err
		}
		if p, err = q.verify(ctx, in, p, seq); p != PublishedNone || err != nil || try == freedTries {
			return p, err
		}
		if err := q.time.Sleep(ctx, freedPause); err != nil {
			return PublishedNone, err
		}
	}
}

// With replicas the place of an intent that was just acknowledged can be taken
// for occupied for a moment (R6): so often, and so far apart, a publish that is
// refused for an intent which is not there is repeated.
const (
	freedTries = 20
	freedPause = 50 * time.Millisecond
)

// verify looks up what stands behind an answer that says "not stored" (R6).
// PublishedNone without an error: nothing does; publish again.
func (q *Queue) verify(ctx context.Context, in Intent, p Published, twin uint64) (Published, error) {
	switch {
	case p == AlreadyPending && q.replicas > 1:
		waiting, err := q.IsPending(ctx, in.OrderNo)
		if err != nil || !waiting {
			return PublishedNone, err
		}
	case p == AlreadyKnown:
		return p, q.findTwin(ctx, in, twin)
	}
	return p, nil
}

// findTwin returns ErrSwallowed where the intent of which in is a duplicate,
// stored at seq, is neither waiting nor settled.
func (q *Queue) findTwin(ctx context.Context, in Intent, seq uint64) error {
	waiting, err := q.store.IntentAt(ctx, seq)
	if err != nil {
		return err
	}
	if waiting != nil {
		if waiting.Subject != q.n.newPre+order.Token(in.OrderNo) { // the ID was used for another order
			return fmt.Errorf("%w: order %q, ID %q", ErrSwallowed, in.OrderNo, in.ID)
		}
		return nil
	}
	entry, err := q.Lookup(ctx, in.OrderNo)
	if errors.Is(err, ErrUnreadable) {
		return nil // there is a last word
	}
	// A result of another submission says nothing about this one: it may be older.
	if err == nil && (entry.Record == nil || entry.Record.Settled == 0 || entry.Record.IntentID != intentID(in.ID, seq, time.Time{})) {
		err = fmt.Errorf("%w: order %q, ID %q", ErrSwallowed, in.OrderNo, in.ID)
	}
	return err
}

func ackSequence(ack *jetstream.PubAck) uint64 {
	if ack == nil {
		return 0
	}
	return ack.Sequence
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
	case api.ErrorCode == codeStoreFailed || api.ErrorCode == codeInsufficient || api.ErrorCode == codeStorageExceeded:
		return PublishedNone, fmt.Errorf("%w: %s", ErrFull, api.Description)
	default:
		return PublishedNone, fmt.Errorf("intent refused by the broker: %w", err)
	}
}

// PublishMany stores intents in atomic batches, in their order, and says what
// became of each. A batch that the broker refuses (one duplicate is enough) is
// published one by one, so that the duplicate is singled out and the rest is
// stored. What is not confirmed since the broker is out of reach is published
// again, for cfg.BrokerWait at most. The results have the length of intents.
func (q *Queue) PublishMany(ctx context.Context, intents []Intent) []PublishResult {
	results := make([]PublishResult, len(intents))
	for start := 0; start < len(intents); start += maxBatch {
		end := min(start+maxBatch, len(intents))
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

// publishAgain publishes what an outage left unconfirmed, under the same IDs,
// until all of it is confirmed or refused.
func (q *Queue) publishAgain(ctx context.Context, intents []Intent, results []PublishResult) error {
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

func (q *Queue) publishBatch(ctx context.Context, intents []Intent, results []PublishResult) {
	msgs := make([]*nats.Msg, 0, len(intents))
	index := make([]int, 0, len(intents))
	seen := make(map[string]bool, len(intents))
	var again []int // intents for an order_no that the batch holds already
	for i, in := range intents {
		if err := q.checkSize(in); err != nil {
			results[i].Err = err
			continue
		}
		msg := natsMsg(q.intentMsg(in))
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
			results[i].Published = Stored
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
func (q *Queue) publishSingly(ctx context.Context, intents []Intent, results []PublishResult, index []int) {
	futures := make([]jetstream.PubAckFuture, len(index))
	for k, i := range index {
		future, err := q.js.PublishMsgAsync(natsMsg(q.intentMsg(intents[i])), jetstream.WithStallWait(requestTimeout))
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
func (q *Queue) answered(ctx context.Context, in Intent, ack *jetstream.PubAck, err error) (Published, error) {
	p, err := publishAnswer(ack, err)
	if err != nil || p == Stored {
		return p, err
	}
	if p, err = q.verify(ctx, in, p, ackSequence(ack)); p == PublishedNone && err == nil {
		return q.Publish(ctx, in)
	}
	return p, err
}
