package queue

import (
	"context"
	"errors"
	"fmt"

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

// Delivered implements settle.Store.
func (s jetStore) Delivered(ctx context.Context) (uint64, error) {
	consumer, err := s.q.workersConsumer(ctx)
	if err != nil {
		return 0, err
	}
	return consumer.CachedInfo().Delivered.Stream, nil
}
