package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ReviveConsumer makes the consumer anew. The caller has waited until no worker
// can have a claim from the lost one: AckWait since it was found missing. Another
// worker may have been first.
func (q *Queue) ReviveConsumer(ctx context.Context) error {
	_, err := q.js.CreateConsumer(ctx, q.n.intents, q.consumerConfig())
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("consumer %s of stream %s cannot be made anew: %w", q.n.consumer, q.n.intents, err)
	}
	return nil
}

// ReviveBucket makes the fleet's bucket anew. What steered the fleet is written
// into it again by each worker that remembers it, see [Queue.ReadFleet].
func (q *Queue) ReviveBucket(ctx context.Context) error {
	_, err := q.makeBucket(ctx)
	if err == nil {
		err = q.refuseRollups(ctx)
	}
	return q.bucketError(err)
}

// memory is what the bucket said last: a worker writes it again into a bucket
// that was lost and made anew. A person's hold must not end because somebody
// deleted the bucket.
type memory struct {
	mu       sync.Mutex
	born     time.Time // of the bucket
	lost     bool      // it did not answer: it may be another one when it does
	fleet    *Fleet
	identity *Claim
}

func (m *memory) keep(f *Fleet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fleet = f
	if f.Identity != nil {
		m.identity = f.Identity
	}
}

// noticed takes note of a bucket that does not answer.
func (m *memory) noticed(err error) {
	if errors.Is(err, nats.ErrNoResponders) {
		m.forget()
	}
}

// forget: the bucket may be another one when it answers again.
func (m *memory) forget() {
	m.mu.Lock()
	m.lost = true
	m.mu.Unlock()
}

// remind writes what the fleet was told into a bucket that was made anew. It
// is called before the bucket is read.
func (q *Queue) remind(ctx context.Context) error {
	q.memory.mu.Lock()
	defer q.memory.mu.Unlock()
	if !q.memory.lost {
		return nil
	}
	born, err := q.bucketBorn(ctx)
	if err != nil {
		return err
	}
	if !born.Equal(q.memory.born) {
		if err := errors.Join(q.writeMemory(ctx), q.RestoreMark(ctx)); err != nil {
			return err
		}
		q.memory.born = born
		q.log.Warn().Str("bucket", q.cfg.Bucket).Msg("the fleet's bucket was made anew; wrote its API, hold and limit into it again")
	}
	q.memory.lost = false
	return nil
}

func (q *Queue) writeMemory(ctx context.Context) error {
	entries := make(map[string]any)
	if c := q.memory.identity; c != nil {
		entries[identityKey] = c
	}
	if f := q.memory.fleet; f != nil && f.Hold != nil {
		entries[holdKey] = f.Hold
	}
	if f := q.memory.fleet; f != nil && f.Limit != nil {
		entries[limitKey] = f.Limit
	}
	for key, v := range entries {
		data, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if _, err := q.kv.Create(ctx, key, data); err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
			return err
		}
	}
	return nil
}

// repairPrefix begins the keys that record repairs, one each.
const repairPrefix = "repair."

// Repair makes the streams that are missing anew, empty, and the bucket if need
// be, and records it there: a person's decision, since what the streams held is
// lost. It returns the names of the streams that it made.
func (q *Queue) Repair(ctx context.Context, by string) (made []string, err error) {
	for _, want := range q.streams() {
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
	if q.kv == nil {
		if q.kv, err = q.makeBucket(ctx); err == nil {
			err = q.refuseRollups(ctx)
		}
		if err != nil {
			return made, q.bucketError(err)
		}
	}
	now := time.Now().UTC()
	_, err = q.swapKey(ctx, fmt.Sprintf("%s%d", repairPrefix, now.UnixNano()), map[string]any{"by": by, "at": now, "made": made}, 0)
	return made, err
}
