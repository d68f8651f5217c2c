package queue

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// Bucket is the key-value bucket that the programs of one installation share.
// Its values are JSON. It knows nothing of what they mean.
type Bucket struct{ q *Queue }

// Entry is one key with its value.
type Entry struct {
	Key   string
	Value []byte
	// Revision numbers the writes to the bucket. At is the broker's time of this one.
	Revision uint64
	At       time.Time
}

// ErrNoKey is returned by Get for a key that has no value.
var ErrNoKey = errors.New("no such key")

// Bucket gives access to the bucket.
func (q *Queue) Bucket() *Bucket { return &Bucket{q} }

// Name is how people call the bucket.
func (b *Bucket) Name() string { return b.q.cfg.Bucket }

// Get reads one key. Error: ErrNoKey.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	got, err := b.q.getKey(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Entry{}, ErrNoKey
	}
	if err != nil {
		return Entry{}, b.q.bucketError(err)
	}
	return Entry{Key: key, Value: got.Value(), Revision: got.Revision(), At: got.Created()}, nil
}

// Swap writes a key if its revision is the given one (0: the key has no value),
// and returns its new one. It returns settle.ErrStale if somebody else wrote
// meanwhile.
func (b *Bucket) Swap(ctx context.Context, key string, v any, revision uint64) (written uint64, err error) {
	return b.q.swapKey(ctx, key, v, revision)
}

// Walk passes every key that begins with prefix to visit, until that returns an
// error. It reads the bucket's stream itself: to list keys through a consumer, a
// program would need the right to make consumers, and a consumer can be pointed at
// any subject.
func (b *Bucket) Walk(ctx context.Context, prefix string, visit func(Entry) error) error {
	subjects := "$KV." + b.q.cfg.Bucket + "."
	return b.q.walk(ctx, b.q.bucketStream(), subjects+prefix+">", func(page []*settle.Message) error {
		for _, m := range page {
			if m.Header.Get("KV-Operation") != "" {
				continue // it marks a deletion
			}
			if err := visit(Entry{Key: strings.TrimPrefix(m.Subject, subjects), Value: m.Data, Revision: m.Seq, At: m.Time}); err != nil {
				return err
			}
		}
		return nil
	})
}
