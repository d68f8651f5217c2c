package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// ReviveBucket creates the bucket again. Each worker then writes what it
// remembers, see [Bucket.RestoreIfReplaced].
func (q *Queue) ReviveBucket(ctx context.Context) error {
	_, err := q.makeBucket(ctx)
	if err == nil {
		err = q.alignBucket(ctx)
	}
	return q.bucket.wrap(err)
}

// noteLoss remembers that the bucket did not answer.
func (b *Bucket) noteLoss() {
	b.mu.Lock()
	b.losses++
	b.mu.Unlock()
}

// RestoreIfReplaced calls restore if the broker lost the bucket that the reader read last,
// and a worker created it again. restore writes what this reader knows of the former
// content, whatever others have restored before. RestoreIfReplaced also writes the
// delivered high-water mark again.
func (b *Bucket) RestoreIfReplaced(ctx context.Context, last *BucketRead, restore func(context.Context) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last.created.IsZero() {
		*last = BucketRead{b.created, b.losses}
		if b.losses == 0 {
			return nil
		}
	} else if last.losses == b.losses {
		return nil
	}
	created, err := b.readCreated(ctx)
	if err != nil {
		return b.wrap(err)
	}
	if !created.Equal(last.created) {
		if err := restore(ctx); err != nil {
			return err
		}
	}
	if !created.Equal(b.created) {
		if err := b.q.RestoreHighWaterMark(ctx); err != nil {
			return b.wrap(err)
		}
		b.created = created
		b.q.log.Warn().Str("bucket", b.Name()).Msg("the fleet's bucket was lost and created again; restored its API, hold, limit and lanes; imports that were paused go on")
	}
	*last = BucketRead{created, b.losses}
	return nil
}

// readCreated returns when the broker created the bucket.
func (b *Bucket) readCreated(ctx context.Context) (time.Time, error) {
	stream, err := b.q.js.Stream(ctx, b.stream())
	if err != nil {
		return time.Time{}, err
	}
	return stream.CachedInfo().Created, nil
}

// repairPrefix begins the keys that record repairs, one key for each.
const repairPrefix = "repair."

// Repair creates the missing streams again, empty, and the bucket if it is
// missing. It records that in the bucket. A person must decide to call it,
// because what the streams held is lost. Repair returns the names of the
// streams that it created.
func (q *Queue) Repair(ctx context.Context, by string) (made []string, err error) {
	streams := q.streams()
	if intents, err := q.js.Stream(ctx, q.n.intents); err == nil && intents.CachedInfo().Config.Metadata[waitingKey] != "" {
		streams = append(streams, q.waitingStream())
	}
	if _, err := q.js.Stream(ctx, q.n.waiting); err == nil {
		streams[0].Metadata = maps.Clone(streams[0].Metadata)
		streams[0].Metadata[waitingKey] = roomMade // without the mark nobody looks into the waiting room
	}
	for _, want := range streams {
		_, err := q.js.Stream(ctx, want.Name)
		if err == nil {
			continue
		}
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return made, wrapStream(want.Name, "cannot be read", err)
		}
		if err := q.makeStreams(ctx, []jetstream.StreamConfig{want}); err != nil {
			return made, err
		}
		made = append(made, "stream "+want.Name)
	}
	if q.bucket.kv == nil {
		if q.bucket.kv, err = q.makeBucket(ctx); err == nil {
			err = q.alignBucket(ctx)
		}
		if err != nil {
			return made, q.bucket.wrap(err)
		}
	}
	now := time.Now().UTC()
	_, err = q.bucket.Swap(ctx, fmt.Sprintf("%s%d", repairPrefix, now.UnixNano()), map[string]any{"by": by, "at": now, "made": made}, 0)
	return made, err
}
