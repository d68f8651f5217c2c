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
func (tp *Topology) ReviveConsumer(ctx context.Context) error {
	err := tp.putConsumer(ctx, tp.consumerConfig(), tp.conn.js.CreateConsumer)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s could not be created again: %w", tp.conn.n.consumer, tp.conn.n.intents, err)
	}
	return nil
}

// RemoveConsumer removes the workers' consumer. They create it again once the claims from this
// one are over, and it delivers all that is stored again: what was delivered before counts as
// possibly posted (R2, R3).
func (tp *Topology) RemoveConsumer(ctx context.Context) error {
	err := tp.conn.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := tp.conn.link.bound(ctx)
		defer cancel()
		return tp.conn.js.DeleteConsumer(ctx, tp.conn.n.intents, tp.conn.n.consumer)
	})
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("consumer %s of stream %s could not be removed: %w", tp.conn.n.consumer, tp.conn.n.intents, err)
	}
	return nil
}

// ReviveJournal creates the journal again, empty.
func (tp *Topology) ReviveJournal(ctx context.Context) error {
	for _, spec := range tp.conn.cfg.streams() {
		if spec.part == PartJournal {
			_, err := tp.makeUnlessThere(ctx, spec)
			return err
		}
	}
	return nil
}

// repairPrefix begins the keys that record repairs, one key for each.
const repairPrefix = "repair."

// MakeLost creates the missing streams again, empty, and returns the names of the precious
// ones. A person must decide to call it, because what they held is lost. Workers go on
// holding until [Queue.AcceptLosses].
func (tp *Topology) MakeLost(ctx context.Context) (made []string, err error) {
	for _, want := range tp.conn.cfg.streams() {
		lost, err := tp.makeUnlessThere(ctx, want)
		if err != nil {
			return made, err
		}
		if lost && want.precious {
			made = append(made, want.title())
		}
	}
	if tp.bucket.kv == nil {
		if err := tp.openBucket(ctx); err != nil {
			return made, err
		}
	}
	return made, nil
}

// makeUnlessThere creates a stream that is missing, and reports whether it was. A command whose
// connection breaks meanwhile looks again: what a lost answer created, it has made.
func (tp *Topology) makeUnlessThere(ctx context.Context, want streamSpec) (missing bool, err error) {
	err = tp.conn.patiently(ctx, func(ctx context.Context) error {
		_, err := tp.findStream(ctx, want.config.Name)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return wrapStream(want.config.Name, "cannot be read", err)
		}
		missing = true
		return tp.makeStreams(ctx, []streamSpec{want})
	})
	return missing, err
}

// AcceptLosses accepts the streams as they are: none counts as a [Loss] from now on. It
// records in the bucket who decided that, and what MakeLost made.
func (ex *ExtentKeeper) AcceptLosses(ctx context.Context, by string, made []string) error {
	if err := ex.acceptExtents(ctx); err != nil {
		return err
	}
	now := time.Now().UTC()
	_, err := ex.bucket.Swap(ctx, fmt.Sprintf("%s%d", repairPrefix, now.UnixNano()), map[string]any{"by": by, "at": now, "made": made}, 0)
	return err
}
