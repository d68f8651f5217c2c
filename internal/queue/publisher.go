package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/settle"
)

// Publisher stores the intents that concurrent callers bring, many at once: in atomic
// batches or singly without waiting in between, whichever flushModes finds faster. One
// goroutine at a time uses it. Unlike PublishMany it repeats nothing and judges no answer.
type Publisher struct {
	q     *Queue
	modes flushModes
}

// NewPublisher returns a publisher with measurements of its own.
func (q *Queue) NewPublisher() *Publisher {
	return &Publisher{q: q, modes: flushModes{roundTrip: q.Conn.roundTrip}}
}

// MaxPublish is how many intents Publish puts into one batch.
const MaxPublish = maxBatch

// Publish stores intents and returns the broker's answer for each. Either all of them
// wait (settle.Intent.Waits) or none does, because a batch goes to one stream. An error
// is settle.ErrFull, settle.ErrTooLarge or another refusal, and then nothing was stored
// of that intent unless MayBeStored says so. That the NATS user lacks the right to publish is
// told at once.
func (p *Publisher) Publish(ctx context.Context, intents []settle.Intent) []settle.Published {
	b := publishing{Publisher: p, intents: intents, out: make([]settle.Published, len(intents))}
	ctx, cancel := p.q.Conn.link.within(ctx, 2*requestTimeout)
	defer cancel()
	b.denied = p.q.Conn.watchDenied(p.q.prefixOf(intents), len(intents), cancel)
	defer b.denied.end()
	first, again := b.distinct()
	for start, end := 0, 0; start < len(first); start = end {
		end = batchEnd(len(first), start, func(k int) int { return len(intents[first[k]].Body) })
		n := start + p.modes.singles(end-start)
		b.singly(ctx, first[start:n])
		b.together(ctx, first[n:end])
	}
	b.singly(ctx, again) // the broker judges them now that the others are stored
	return b.out
}

// prefixOf returns what the subjects of intents have in common.
func (q *Queue) prefixOf(intents []settle.Intent) string {
	if len(intents) > 0 && intents[0].Waits() {
		return q.Conn.n.waitPre
	}
	return q.Conn.n.newPre
}

// publishing is one call of Publish.
type publishing struct {
	*Publisher
	intents []settle.Intent
	out     []settle.Published
	denied  *denied
}

// distinct returns the indices of the intents that may share a batch, and of those that
// repeat the order_no or the ID of an earlier one, for which the broker would refuse all
// of it. Too large intents are in neither.
func (b *publishing) distinct() (first, again []int) {
	first = make([]int, 0, len(b.intents))
	orders, ids := make(map[string]bool, len(b.intents)), make(map[string]bool, len(b.intents))
	for i, in := range b.intents {
		if err := b.q.Producer.CheckSize(in); err != nil {
			b.out[i].Err = err
			continue
		}
		if !in.Waits() && orders[in.OrderNo] || in.ID != "" && ids[in.ID] {
			again = append(again, i)
			continue
		}
		orders[in.OrderNo], ids[in.ID] = true, true
		first = append(first, i)
	}
	return first, again
}

// fewRefused is the size below which a refused batch is not divided any more.
const fewRefused = 8

// together publishes an atomic batch. The broker refuses all of it for one intent, which
// together singles out by halves: one repeated order must not cost the others an fsync
// each.
func (b *publishing) together(ctx context.Context, index []int) {
	if len(index) == 0 {
		return
	}
	began := time.Now()
	err := b.atomic(ctx, index)
	switch half := len(index) / 2; {
	case err == nil:
		b.modes.observeTogether(len(index), time.Since(began))
		for _, i := range index {
			b.out[i].Status = settle.Stored
		}
	case !refused(err):
		if why := b.denied.of(b.subjects(index)...); why != nil {
			err = why // without one of its messages, the broker stores nothing of a batch
		}
		for _, i := range index {
			_, b.out[i].Err = publishAnswer("", nil, err)
		}
	case half < fewRefused:
		b.singly(ctx, index)
	default:
		b.together(ctx, index[:half])
		b.together(ctx, index[half:])
	}
}

// subjects returns the subjects of the intents at some places.
func (b *publishing) subjects(index []int) []string {
	subjects := make([]string, len(index))
	for k, i := range index {
		subjects[k] = b.q.Producer.IntentMessage(b.intents[i]).Subject
	}
	return subjects
}

func (b *publishing) atomic(ctx context.Context, index []int) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msgs := make([]*nats.Msg, len(index))
	for k, i := range index {
		msgs[k] = natsMsg(b.q.Producer.IntentMessage(b.intents[i]))
	}
	_, err := jetstreamext.PublishMsgBatch(ctx, b.q.Conn.js, msgs, jetstreamext.BatchFlowControl{AckTimeout: requestTimeout})
	return err
}

func (b *publishing) singly(ctx context.Context, index []int) {
	if len(index) == 0 {
		return
	}
	began, stored := time.Now(), 0
	message := func(k int) (*nats.Msg, error) { return natsMsg(b.q.Producer.IntentMessage(b.intents[index[k]])), nil }
	b.q.publishAsync(ctx, len(index), message, func(k int, ack *jetstream.PubAck, err error) {
		if err == nil {
			stored++
		}
		i := index[k]
		b.out[i].Seq = ackSequence(ack)
		if MayBeStored(err) {
			err = cmp.Or(b.denied.of(b.subjects([]int{i})...), err)
		}
		b.out[i].Status, b.out[i].Err = publishAnswer(b.q.Conn.n.takes(b.intents[i].Waits()), ack, err)
	})
	if stored == len(index) {
		b.modes.observeSingly(stored, time.Since(began))
	}
}

// refused reports whether JetStream answered, and stored nothing.
func refused(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api)
}

// unsent are errors of messages that did not leave this program, or that no stream took.
var unsent = []error{nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, nats.ErrNoResponders, nats.ErrMaxPayload, nats.ErrInvalidConnection, errDenied,
	jetstream.ErrNoStreamResponse, jetstream.ErrTooManyStalledMsgs, settle.ErrTooLarge}

// MayBeStored reports whether an intent may be stored whose publish failed with err: the
// broker did not answer.
func MayBeStored(err error) bool {
	return err != nil && !refused(err) && !errors.Is(err, settle.ErrFull) && !slices.ContainsFunc(unsent, func(e error) bool { return errors.Is(err, e) })
}
