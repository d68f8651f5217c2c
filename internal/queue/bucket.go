package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// Bucket is the key-value bucket that the programs of one installation share.
// Its values are JSON, whose meaning it does not know.
//
// Requests wait for a broker that is out of reach, as those of [Queue] do, and
// may be repeated.
type Bucket struct {
	conn       *Conn
	reader     *reader
	kv         jetstream.KeyValue // nil if the broker has no bucket (LeaveMissing)
	silentTerm time.Duration      // the constant, except in tests

	mayNotWrite atomic.Bool // the NATS user was refused by Stores, which asks no more
}

// Entry is one key with its value.
type Entry struct {
	Key   string
	Value []byte
	// Revision numbers the writes to the bucket. At is the broker's time of
	// this one.
	Revision uint64
	At       time.Time
}

// ErrNoKey is returned by Get for a key that has no value.
var ErrNoKey = errors.New("no such key")

// Name returns the bucket's name.
func (b *Bucket) Name() string { return b.conn.n.bucket }

// Born returns when the bucket was made, also after it was restored from a backup.
func (b *Bucket) Born(ctx context.Context) (time.Time, error) {
	info, err := b.reader.info(ctx, b.stream())
	if err != nil {
		return time.Time{}, err
	}
	return bornAt(info), nil
}

// stream returns the name of the stream that stores the bucket.
func (b *Bucket) stream() string { return bucketPrefix + b.conn.n.bucket }

// prefix returns the prefix of the subjects of the bucket's keys.
func (b *Bucket) prefix() string { return "$KV." + b.conn.n.bucket + "." }

// entry reads a stored message. ok is false for the marker of a deletion.
func (b *Bucket) entry(raw *settle.Message) (e Entry, ok bool) {
	return Entry{Key: strings.TrimPrefix(raw.Subject, b.prefix()), Value: raw.Data, Revision: raw.Seq, At: raw.Time},
		raw.Header.Get("KV-Operation") == ""
}

// Get reads one key. Error: ErrNoKey.
func (b *Bucket) Get(ctx context.Context, key string) (e Entry, err error) {
	err = b.conn.request(ctx, func(ctx context.Context) error {
		got, err := b.kv.Get(ctx, key)
		if err == nil {
			e = Entry{Key: key, Value: got.Value(), Revision: got.Revision(), At: got.Created()}
		}
		return err
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return e, ErrNoKey
	}
	return e, b.wrap(err)
}

// Put writes a key, whatever its value is now.
func (b *Bucket) Put(ctx context.Context, key string, v any) error {
	return b.put(ctx, key, v, b.conn.request)
}

// PutSoon is Put for an act that a person must not believe in effect while it is not. It
// gives up with [ErrSilent] if the broker can be reached and confirms nothing for a while.
func (b *Bucket) PutSoon(ctx context.Context, key string, v any) error {
	return b.put(ctx, key, v, b.doSoon)
}

// request carries out one request, and may repeat it.
type request = func(ctx context.Context, try func(context.Context) error) error

// put is Put that carries out its request by do.
func (b *Bucket) put(ctx context.Context, key string, v any, do request) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.wrap(do(ctx, func(ctx context.Context) error {
		_, err := b.kv.Put(ctx, key, data)
		return err
	}))
}

// doSoon is a request that gives up with [ErrSilent], as PutSoon says.
func (b *Bucket) doSoon(ctx context.Context, try func(context.Context) error) error {
	var silent time.Time // since when
	return b.conn.request(ctx, func(ctx context.Context) error {
		if silent.IsZero() || !b.conn.Connected() {
			silent = time.Now()
		}
		err := try(ctx)
		if err != nil && b.conn.transient(err) && b.conn.Connected() && time.Since(silent) > b.silentTerm {
			return fmt.Errorf("%w for %s (%v)", ErrSilent, time.Since(silent).Round(time.Second), err)
		}
		return err
	})
}

// silentTerm is how long PutSoon waits: longer than a cluster takes to choose a leader.
const silentTerm = 15 * time.Second

// Swap writes a key if its revision is the given one (0: the key has no value),
// and returns the new revision. It returns settle.ErrStale if another write
// came before.
func (b *Bucket) Swap(ctx context.Context, key string, v any, revision uint64) (written uint64, err error) {
	return b.swap(ctx, key, v, revision, b.conn.request)
}

// SwapSoon is Swap that gives up as PutSoon does.
func (b *Bucket) SwapSoon(ctx context.Context, key string, v any, revision uint64) (written uint64, err error) {
	return b.swap(ctx, key, v, revision, b.doSoon)
}

// swap is Swap that carries out its request by do.
func (b *Bucket) swap(ctx context.Context, key string, v any, revision uint64, do request) (written uint64, err error) {
	data, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	repeated := false
	err = do(ctx, func(ctx context.Context) error {
		if revision == 0 {
			written, err = b.kv.Create(ctx, key, data)
		} else {
			written, err = b.kv.Update(ctx, key, data, revision)
		}
		stale := errors.Is(err, jetstream.ErrKeyExists) || errors.Is(writeError(err), settle.ErrStale)
		if stale && repeated { // our own write may have come before, its confirmation lost
			var now jetstream.KeyValueEntry
			if now, err = b.kv.Get(ctx, key); err == nil && bytes.Equal(now.Value(), data) {
				written = now.Revision()
				return nil
			}
		}
		if stale && (err == nil || !b.conn.transient(err)) {
			err = settle.ErrStale
		}
		repeated = true
		return err
	})
	if errors.Is(err, settle.ErrStale) {
		return 0, settle.ErrStale
	}
	return written, b.wrap(err)
}

// changePause is the time between two tries of Again.
const changePause = 50 * time.Millisecond

// Again repeats a change that reads a value and swaps it while it returns settle.ErrStale: somebody else
// was first, or a replica that lags answered the read.
func Again(ctx context.Context, change func() error) error {
	for {
		if err := change(); !errors.Is(err, settle.ErrStale) {
			return err
		}
		if err := settle.Sleep(ctx, changePause); err != nil {
			return err
		}
	}
}

// Offer is Put that tries once, for what everybody can do without. A NATS user who may not write hears of
// that at once.
func (b *Bucket) Offer(ctx context.Context, key string, v any) error {
	if b.kv == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	w := b.conn.watchDenied(b.prefix()+key, 1, cancel)
	w.quiet = true
	defer w.end()
	return b.put(ctx, key, v, func(ctx context.Context, try func(context.Context) error) error { return try(ctx) })
}

// Delete removes a key's value if its revision is the given one (0: any), and
// leaves a marker that watchers see. It returns settle.ErrStale if another write
// came before.
func (b *Bucket) Delete(ctx context.Context, key string, revision uint64) error {
	var opts []jetstream.KVDeleteOpt
	if revision > 0 {
		opts = append(opts, jetstream.LastRevision(revision))
	}
	err := b.conn.request(ctx, func(ctx context.Context) error { return b.kv.Delete(ctx, key, opts...) })
	if errors.Is(writeError(err), settle.ErrStale) {
		return settle.ErrStale
	}
	return b.wrap(err)
}

// Erase removes a key and leaves no marker.
func (b *Bucket) Erase(ctx context.Context, key string) error {
	_, err := b.reader.purge(ctx, b.stream(), b.prefix()+key, 0)
	return b.wrap(err)
}

func (b *Bucket) wrap(err error) error {
	if err == nil {
		return nil
	}
	var api *jetstream.APIError
	if errors.As(err, &api) && slices.Contains(fullCodes, api.ErrorCode) {
		return fmt.Errorf("bucket %s: the broker has no room to store the key (%w); make room on its disk and run the command again", b.Name(), err)
	}
	return fmt.Errorf("bucket %s: %w", b.Name(), err)
}

const (
	// storesKey is the key that Stores writes. Nobody reads it.
	storesKey = "probe.stores"
	// storesTime is how long Stores waits for the confirmation.
	storesTime = time.Second
)

// Stores writes one value and returns the broker's error if it can be reached and does
// not store it: its disk may be full. Such a broker still answers reads. Stores returns
// nil if the value was stored, and where that cannot be found out: without a connection,
// without a bucket, and for a NATS user who may not write.
func (b *Bucket) Stores(ctx context.Context) error {
	if b.kv == nil || b.mayNotWrite.Load() || !b.conn.Connected() {
		return nil
	}
	denied := b.conn.outages.refused.Load()
	try, cancel := context.WithTimeout(ctx, storesTime)
	defer cancel()
	_, err := b.kv.Put(try, storesKey, []byte("{}"))
	if b.conn.outages.refused.Load() != denied { // a producer who waits would be refused each second
		b.mayNotWrite.Store(true)
		return nil
	}
	if err == nil || ctx.Err() != nil || !b.conn.Connected() {
		return nil
	}
	return err
}

// Last reads the keys that match the patterns, all as of one moment. With one
// replica the answer is exact. With more, a follower that lags may answer.
func (b *Bucket) Last(ctx context.Context, patterns ...string) (entries []Entry, err error) {
	subjects := make([]string, len(patterns))
	for i, p := range patterns {
		subjects[i] = b.prefix() + p
	}
	err = b.conn.patiently(ctx, func(ctx context.Context) error {
		entries = nil
		return b.reader.askLast(ctx, b.stream(), query{"multi_last": subjects}, func(raw *settle.Message) {
			if e, ok := b.entry(raw); ok {
				entries = append(entries, e)
			}
		})
	})
	return entries, b.wrap(err)
}

// Walk passes every key that begins with prefix to visit. It stops at an error
// of visit and returns that error unchanged. Walk reads the bucket's stream in
// constant memory. To list keys through a consumer, a program would need the
// right to create consumers, and a consumer can be pointed at any subject.
func (b *Bucket) Walk(ctx context.Context, prefix string, visit func(Entry) error) error {
	return b.WalkFrom(ctx, prefix, 1, visit)
}

// WalkFrom is Walk for the keys that were written last at a revision or later.
func (b *Bucket) WalkFrom(ctx context.Context, prefix string, revision uint64, visit func(Entry) error) error {
	for page, err := range pages(ctx, b.reader.page, b.stream(), b.prefix()+prefix+">", revision) {
		if err != nil {
			return b.wrap(err)
		}
		for _, raw := range page {
			if e, ok := b.entry(raw); ok {
				if err := visit(e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Watch calls wake after each write to a key that begins with prefix, until ctx
// ends. It makes reactions quick, not certain: a watch may miss what happens
// while the broker restarts. So the caller must also read from time to time.
func (b *Bucket) Watch(ctx context.Context, prefix string, wake func()) error {
	w, err := b.kv.Watch(ctx, prefix+">", jetstream.UpdatesOnly())
	if err != nil {
		return b.wrap(err)
	}
	defer func() { _ = w.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.Updates():
			if !open {
				return nil
			}
			if e != nil {
				wake()
			}
		}
	}
}

// Now returns the broker's time, by which the entries of the bucket are stamped. This
// machine's clock may be wrong.
func (b *Bucket) Now(ctx context.Context) (time.Time, error) {
	info, err := b.reader.info(ctx, b.stream())
	if err != nil {
		return time.Time{}, b.wrap(err)
	}
	return info.TimeStamp, nil
}
