package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ReviveConsumer creates the consumer again, unless another worker did so
// first. The caller has waited for AckWait since the consumer was found
// missing. So no worker has a claim from the lost one.
func (q *Queue) ReviveConsumer(ctx context.Context) error {
	err := q.putConsumer(ctx, q.consumerConfig(), q.js.CreateConsumer)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s could not be created again: %w", q.n.consumer, q.n.intents, err)
	}
	return nil
}

// ReviveJournal creates the journal again, empty.
func (q *Queue) ReviveJournal(ctx context.Context) error {
	for _, spec := range q.cfg.streams() {
		if spec.part == PartJournal {
			return q.makeStreams(ctx, []streamSpec{spec})
		}
	}
	return nil
}

// repairPrefix begins the keys that record repairs, one key for each.
const repairPrefix = "repair."

// MakeLost creates the missing streams again, empty, and returns the names of the precious
// ones. A person must decide to call it, because what they held is lost. Workers go on
// holding until [Queue.AcceptLosses].
func (q *Queue) MakeLost(ctx context.Context) (made []string, err error) {
	for _, want := range q.cfg.streams() {
		_, err := q.findStream(ctx, want.config.Name)
		if err == nil {
			continue
		}
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return made, wrapStream(want.config.Name, "cannot be read", err)
		}
		if err := q.makeStreams(ctx, []streamSpec{want}); err != nil {
			return made, err
		}
		if want.precious {
			made = append(made, want.title())
		}
	}
	if q.bucket.kv == nil {
		if err := q.openBucket(ctx); err != nil {
			return made, err
		}
	}
	return made, nil
}

// AcceptLosses accepts the streams as they are: none counts as a [Loss] from now on. It
// records in the bucket who decided that, and what MakeLost made.
func (q *Queue) AcceptLosses(ctx context.Context, by string, made []string) error {
	if err := q.acceptExtents(ctx); err != nil {
		return err
	}
	now := time.Now().UTC()
	_, err := q.bucket.Swap(ctx, fmt.Sprintf("%s%d", repairPrefix, now.UnixNano()), map[string]any{"by": by, "at": now, "made": made}, 0)
	return err
}
