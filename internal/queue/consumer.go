package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// workersConsumer reads the state of the workers' consumer into its CachedInfo.
func (q *Queue) workersConsumer(ctx context.Context) (c jetstream.Consumer, err error) {
	err = q.patiently(ctx, func(ctx context.Context) error {
		c, err = q.readConsumer(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", q.n.consumer, err)
	}
	return c, nil
}

// AckFloor returns the highest sequence up to which the broker counts every
// intent as acknowledged. It returns 0 if there is no consumer: a new one
// delivers everything.
func (q *Queue) AckFloor(ctx context.Context) (uint64, error) {
	c, err := q.workersConsumer(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return c.CachedInfo().AckFloor.Stream, nil
}

// AcknowledgeAgain sends the acknowledgement that a worker would send for the
// intent with this sequence, and waits for the answer. JetStream removes an
// intent that it still stores although it was acknowledged before.
func (q *Queue) AcknowledgeAgain(ctx context.Context, seq uint64) error {
	ctx, cancel := q.link.bound(ctx)
	defer cancel()
	// $JS.ACK.stream.consumer.deliveries.stream sequence.consumer sequence.time.pending
	subject := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.1.%d.0", q.n.intents, q.n.consumer, seq, time.Now().UnixNano())
	if _, err := q.nc.RequestWithContext(ctx, subject, plainAck); err != nil {
		return fmt.Errorf("intent %d is settled but still stored, and could not be acknowledged again: %w", seq, err)
	}
	return nil
}
