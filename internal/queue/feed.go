package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

const (
	// feedAckWait is after which time the broker hands out again what a feeder pulled
	// and neither acknowledged nor gave back. It exceeds a feeder's term.
	feedAckWait = 10 * time.Second
	// feedIdle is after which time the broker removes a consumer that nobody pulls from.
	feedIdle = 5 * time.Minute
)

// feedConsumer returns the configuration of the consumer that a feeder pulls the
// intents of one subject from. It limits no pending acknowledgements: blocked intents
// count among them. Nothing depends on what it remembers, so it stays in memory.
func (q *Queue) feedConsumer(subject string) jetstream.ConsumerConfig {
	h := fnv.New128a()
	_, _ = h.Write([]byte(subject))
	return jetstream.ConsumerConfig{
		Name: fmt.Sprintf("feed-%x", h.Sum(nil)), Description: "orderpost: the feeder of " + subject,
		FilterSubject: subject, AckPolicy: jetstream.AckExplicitPolicy, AckWait: feedAckWait,
		MaxDeliver: -1, MaxAckPending: -1, InactiveThreshold: feedIdle, MemoryStorage: true,
	}
}

// ErrNoPulls is returned by PullWaiting if the broker makes no consumer.
var ErrNoPulls = errors.New("the broker makes no consumer")

// PullWaiting pulls up to n waiting intents of a subject without a time, from a
// consumer of that subject alone, and does not wait for more. It creates the consumer
// if it is missing. Errors: ErrNoPulls. Several feeders may pull from it: settle.Move recognises what
// another one moved.
func (q *Queue) PullWaiting(ctx context.Context, subject string, n int) (got []settle.Arrival, err error) {
	consumer := q.feedConsumer(subject)
	err = q.patiently(ctx, func(ctx context.Context) error {
		if got, err = q.pullWaiting(consumer.Name, n); !errors.Is(err, nats.ErrNoResponders) {
			return err
		}
		ctx, cancel := q.link.bound(ctx)
		defer cancel()
		if _, err := q.js.CreateOrUpdateConsumer(ctx, q.n.waiting, consumer); err != nil {
			return fmt.Errorf("%w of stream %s, subject %s: %w", ErrNoPulls, q.n.waiting, subject, err)
		}
		got, err = q.pullWaiting(consumer.Name, n)
		return err
	})
	return got, err
}

// EndPulls removes the consumer of a subject under which nothing waits. The broker
// would remove it later. It waits for no answer.
func (q *Queue) EndPulls(subject string) {
	_ = q.nc.Publish("$JS.API.CONSUMER.DELETE."+q.n.waiting+"."+q.feedConsumer(subject).Name, nil)
}

// pullWaiting makes one pull. It keeps what came before an error: the broker counts
// it as delivered.
func (q *Queue) pullWaiting(consumer string, n int) (got []settle.Arrival, err error) {
	p, err := q.startPull(q.n.waiting, consumer, min(n, maxBatch), 0)
	if err != nil {
		return nil, fmt.Errorf("pull from stream %s: %w", q.n.waiting, err)
	}
	defer p.end()
	for msg := p.next(); msg != nil; msg = p.next() {
		got = append(got, q.arrival(msg))
	}
	if p.err != nil && len(got) == 0 {
		return nil, fmt.Errorf("pull from stream %s: %w", q.n.waiting, p.err)
	}
	return got, nil
}

// WaitingPage reads up to n waiting intents of a subject, from a sequence on, in
// their order. With several replicas a follower that lags may answer; what it lacks
// is read later.
func (q *Queue) WaitingPage(ctx context.Context, subject string, from uint64, n int) (page []*settle.Message, err error) {
	req, err := json.Marshal(map[string]any{"seq": max(from, 1), "batch": min(n, pageSize), "max_bytes": answerBytes, "next_by_subj": subject})
	if err != nil {
		return nil, err
	}
	err = q.patiently(ctx, func(ctx context.Context) error {
		page, _, err = q.askPage(ctx, q.n.waiting, subject, req)
		return err
	})
	return page, err
}

// Backlog is how much the intents stream has for the workers.
type Backlog struct {
	// Undelivered counts the intents that no worker was given. Delivered counts
	// those that workers have in hand or that wait for another delivery.
	Undelivered, Delivered int
	// Gone counts the intents that ever left the stream.
	Gone uint64
}

// Backlog reads it from the stream and its consumer.
func (q *Queue) Backlog(ctx context.Context) (Backlog, error) {
	stream, err := q.intents(ctx)
	if err != nil {
		return Backlog{}, err
	}
	consumer, err := q.workersConsumer(ctx)
	if err != nil {
		return Backlog{}, err
	}
	state, info := stream.CachedInfo().State, consumer.CachedInfo()
	return Backlog{Undelivered: int(info.NumPending), Delivered: info.NumAckPending, Gone: state.LastSeq - min(state.LastSeq, state.Msgs)}, nil
}
