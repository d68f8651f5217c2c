package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// workersConsumer reads the state of the workers' consumer into its CachedInfo.
func (tp *Topology) workersConsumer(ctx context.Context) (c jetstream.Consumer, err error) {
	err = tp.conn.patiently(ctx, func(ctx context.Context) error {
		c, err = tp.readConsumer(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", tp.conn.n.consumer, err)
	}
	return c, nil
}

// AckFloor returns the highest sequence up to which the broker counts every
// intent as acknowledged and delivers none again. It returns 0 if there is no consumer: a
// new one delivers everything.
func (q *Queue) AckFloor(ctx context.Context) (uint64, error) {
	p, err := jetStore{q}.Progress(ctx)
	return p.Past(), err
}

// Progress implements settle.Store. The broker delivers what is to come again before
// anything else. So nothing waits for that while a pull waits.
func (s jetStore) Progress(ctx context.Context) (settle.Progress, error) {
	c, err := s.q.Topology.workersConsumer(ctx)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return settle.Progress{}, nil
	}
	if err != nil {
		return settle.Progress{}, err
	}
	info := c.CachedInfo()
	p := settle.Progress{Floor: info.AckFloor.Stream, Delivered: info.Delivered.Stream, NoneHeld: info.NumAckPending == 0}
	p.NoneAgain = p.NoneHeld || info.NumWaiting > 0 && !info.Paused
	if l := info.Cluster; l != nil && l.LeaderSince != nil {
		p.Leader = l.Leader + " since " + l.LeaderSince.String()
	}
	return p, nil
}
