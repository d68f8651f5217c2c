package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// pauseLook is the time between two looks at a consumer that is being paused.
	pauseLook = 10 * time.Millisecond
	// quietLooks is how many looks must show the same last delivery.
	quietLooks = 10
)

// Pause implements settle.Store. In a cluster, the broker answers as soon as it has
// proposed the pause. The consumer's leader applies it later, and delivers meanwhile. So
// Pause asks that leader. The leader of a consumer with replicas sends a delivery when
// it has a quorum, and counts it only then, also after the pause began. So Pause waits
// until no more are counted.
func (s jetStore) Pause(ctx context.Context, until time.Time) error {
	ctx, cancel := s.q.link.bound(ctx)
	defer cancel()
	if _, err := s.q.js.PauseConsumer(ctx, s.q.n.intents, s.q.n.consumer, until); err != nil {
		return err
	}
	need, quiet, last := 1, 0, uint64(0)
	if s.Replicated() {
		need = quietLooks
	}
	for time.Now().Before(until) {
		c, err := s.q.readConsumer(ctx)
		if err != nil {
			return fmt.Errorf("the broker took the pause, and its consumer %s did not confirm it: %w", s.q.n.consumer, err)
		}
		paused := c.CachedInfo().Paused && !pauseEnd(c).Before(until)
		if at := c.CachedInfo().Delivered.Stream; !paused || at != last {
			quiet, last = 0, at
		}
		if quiet++; paused && quiet >= need {
			return nil
		}
		if err := pause(ctx, pauseLook); err != nil {
			return fmt.Errorf("the broker took the pause, and its consumer %s still delivers: %w", s.q.n.consumer, err)
		}
	}
	return nil
}

// pauseEnd returns the end of a consumer's last pause; zero if it never had one.
func pauseEnd(c jetstream.Consumer) (at time.Time) {
	if end := c.CachedInfo().Config.PauseUntil; end != nil {
		at = *end
	}
	return at
}

func (s jetStore) PausedUntil(ctx context.Context) (until time.Time, err error) {
	consumer, err := s.q.workersConsumer(ctx)
	if err != nil {
		return until, err
	}
	return pauseEnd(consumer), nil
}

func (s jetStore) Delivered(ctx context.Context) (uint64, error) {
	consumer, err := s.q.workersConsumer(ctx)
	if err != nil {
		return 0, err
	}
	return consumer.CachedInfo().Delivered.Stream, nil
}
