package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// StreamOf returns the name of the stream that takes a new intent: the waiting room's if
// it waits.
func (q *Queue) StreamOf(waits bool) string { return q.Conn.n.takes(waits) }

// PublishResult says what became of one intent of PublishMany.
type PublishResult struct {
	Status settle.PublishStatus
	// Err is set if the intent is not known to be stored. It is settle.ErrFull,
	// settle.ErrTooLarge, or says that the broker did not confirm the intent.
	// Publish that one again with the same ID.
	Err error
}

// PublishMany stores intents in atomic batches, in their order, and returns
// what became of each, in the order of intents. While the broker is out of
// reach, it publishes unconfirmed intents again, for at most cfg.BrokerWait.
//
// After the end of ctx PublishMany sends nothing more. It returns once the broker has answered what
// was sent, or the connection breaks. So a cancellation after it covers everything that it stored.
func (q *Queue) PublishMany(ctx context.Context, intents []settle.Intent) []PublishResult {
	results := make([]PublishResult, len(intents))
	for start, end := 0, 0; start < len(intents); start = end {
		end = min(start+maxBatch, len(intents))
		if err := q.publishUntilKnown(ctx, intents[start:end], results[start:end]); err != nil {
			for i := end; i < len(intents); i++ {
				results[i].Err = err
			}
			break
		}
	}
	return results
}

// publishUntilKnown publishes intents, and again what the broker did not answer, or for which a
// settled intent has the place (R14). It waits for all such places together.
func (q *Queue) publishUntilKnown(ctx context.Context, intents []settle.Intent, results []PublishResult) error {
	w := q.Conn.wait()
	defer w.Done()
	p := publishing{pipeline: newPipeline(q.Conn), wait: 2 * requestTimeout, may: ctx.Err, mode: together}
	open := make([]int, len(intents))
	for i := range open {
		open[i] = i
	}
	for freed := 0; ; p.mode = singly {
		var lost error
		if open, lost = q.publishOpen(ctx, p, intents, results, open); len(open) == 0 {
			return nil
		}
		err := ctx.Err()
		switch {
		case err != nil:
		case lost != nil:
			err = w.Backoff(ctx, lost)
		case freed == settle.FreedTries:
			for _, i := range open {
				results[i].Status = settle.AlreadyPending
			}
			return nil
		default:
			freed++
			err = settle.Sleep(ctx, settle.FreedPause)
		}
		if err != nil {
			for _, i := range open {
				results[i].Err = err
			}
			return err
		}
	}
}

// publishOpen publishes the intents at some places, and returns the places of those to publish
// again. lost is the error of one that the broker did not answer; nil = it answered all of them.
func (q *Queue) publishOpen(ctx context.Context, p publishing, intents []settle.Intent, results []PublishResult, open []int) (again []int, lost error) {
	some := make([]settle.Intent, len(open))
	for k, i := range open {
		some[k] = intents[i]
	}
	answers, cancel := q.Conn.outlive(ctx)
	defer cancel()
	for k, a := range q.publishIntents(answers, p, some) {
		r := &results[open[k]]
		if r.Status, r.Err = a.Status, a.Err; a.Err == nil && a.Status != settle.Stored {
			r.Status, r.Err = q.Producer.Verify(ctx, some[k], a.Status, a.Seq)
		}
		transient := q.Conn.patient() && q.Conn.transient(r.Err)
		if transient {
			lost = r.Err
		}
		if transient || *r == (PublishResult{}) {
			again = append(again, open[k])
		}
	}
	return again, lost
}

// Publisher stores the intents that concurrent callers bring, many at once. Unlike PublishMany it repeats nothing that may be stored, and
// judges no answer.
type Publisher struct {
	q        *Queue
	pipeline *pipeline
}

// NewPublisher returns a publisher with measurements of its own.
func (q *Queue) NewPublisher() *Publisher { return &Publisher{q, newPipeline(q.Conn)} }

// MaxPublish is how many intents Publish puts into one batch.
const MaxPublish = maxBatch

// Publish stores intents and returns the broker's answer for each. Either all of them
// wait (settle.Intent.Waits) or none does, because a batch goes to one stream. An error
// is settle.ErrFull, settle.ErrTooLarge or another refusal, and then nothing was stored
// of that intent unless MayBeStored says so. That the NATS user lacks the right to publish is
// told at once.
func (p *Publisher) Publish(ctx context.Context, intents []settle.Intent) []settle.Published {
	ctx, cancel := p.q.Conn.link.within(ctx, 2*requestTimeout)
	defer cancel()
	prefix := p.q.Conn.n.newPre
	if len(intents) > 0 && intents[0].Waits() {
		prefix = p.q.Conn.n.waitPre
	}
	denied := p.q.Conn.watchDenied(prefix, len(intents), cancel)
	defer denied.end()
	return p.q.publishIntents(ctx, publishing{pipeline: p.pipeline, wait: 2 * requestTimeout, denied: denied}, intents)
}

// publishIntents publishes intents, unless they are too large, and returns the answer to each.
func (q *Queue) publishIntents(ctx context.Context, p publishing, intents []settle.Intent) []settle.Published {
	messages, answers := make([]*settle.Message, 0, len(intents)), make([]settle.Published, len(intents))
	var sent []int
	for i, in := range intents {
		if answers[i].Err = q.Producer.CheckSize(in); answers[i].Err == nil {
			messages, sent = append(messages, q.Producer.IntentMessage(in)), append(sent, i)
		}
	}
	for k, a := range p.messages(ctx, messages) {
		answers[sent[k]] = a
	}
	return answers
}

// PublishIntents implements settle.Store.
func (s jetStore) PublishIntents(ctx context.Context, ms []*settle.Message, may func() error) []settle.Published {
	p := publishing{pipeline: s.q.moved, wait: 2 * requestTimeout, may: may}
	return p.messages(ctx, ms)
}

// messages publishes intents as messages, and returns the answer to each.
func (p *publishing) messages(ctx context.Context, ms []*settle.Message) []settle.Published {
	out, answers := make([]*outgoing, len(ms)), make([]settle.Published, len(ms))
	for i, m := range ms {
		out[i] = &outgoing{msg: natsMsg(m)}
	}
	p.publish(ctx, out)
	for i, o := range out {
		answers[i] = p.conn.published(o.msg.Subject, o.seq, o.duplicate, o.err)
	}
	return answers
}

// natsMsg returns a message to publish.
func natsMsg(m *settle.Message) *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Header: nats.Header(m.Header), Data: m.Data}
}

// published returns what JetStream's answer to a publish means (R6).
func (cn *Conn) published(subject string, seq uint64, duplicate bool, err error) settle.Published {
	p := settle.Published{Seq: seq}
	var api *jetstream.APIError
	switch {
	case err == nil && duplicate:
		p.Status = settle.AlreadyKnown
	case err == nil:
		p.Status = settle.Stored
	case !errors.As(err, &api):
		p.Err = fmt.Errorf("the broker did not confirm the intent: %w", err)
	case api.ErrorCode == codeStoreFailed && strings.Contains(api.Description, textSubjectIsFull):
		p.Status = settle.AlreadyPending
	case api.ErrorCode == codeIDInProcess: // that publish may still be stored
		p.Err = fmt.Errorf("%w: %s (code %d)", errUnconfirmed, api.Description, api.ErrorCode)
	case slices.Contains(fullCodes, api.ErrorCode):
		p.Err = fmt.Errorf("%w in stream %s: %s", settle.ErrFull, cn.n.takes(strings.HasPrefix(subject, cn.n.waitPre)), api.Description)
	case api.ErrorCode == codeMessageTooLarge:
		p.Err = fmt.Errorf("%w: %s; an order may have at most %d bytes and its headers %d", settle.ErrTooLarge, api.Description, order.MaxBody, settle.HeadersReserve)
	default:
		p.Err = fmt.Errorf("the broker refused the intent: %w", err)
	}
	return p
}

// unsent are errors of messages that did not leave this program, or that no stream took.
var unsent = []error{nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, nats.ErrNoResponders, nats.ErrMaxPayload, nats.ErrInvalidConnection, errDenied,
	jetstream.ErrNoStreamResponse, settle.ErrTooLarge}

// MayBeStored reports whether an intent may be stored whose publish failed with err: the
// broker did not answer.
func MayBeStored(err error) bool {
	return err != nil && !refused(err) && !errors.Is(err, settle.ErrFull) && !slices.ContainsFunc(unsent, func(e error) bool { return errors.Is(err, e) })
}
