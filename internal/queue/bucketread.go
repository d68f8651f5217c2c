package queue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"orderpost/internal/settle"
)

// Last reads the keys that match the patterns, all as of one moment. With one
// replica the answer is exact. With more, a follower that lags may answer.
func (b *Bucket) Last(ctx context.Context, patterns ...string) (entries []Entry, err error) {
	subjects := make([]string, len(patterns))
	for i, p := range patterns {
		subjects[i] = b.prefix() + p
	}
	req, err := json.Marshal(map[string]any{"multi_last": subjects})
	if err != nil {
		return nil, err
	}
	err = b.conn.patiently(ctx, func(ctx context.Context) error {
		entries = nil
		return b.reader.directGet(ctx, b.stream(), req, func(msg *nats.Msg) (bool, error) {
			if status := directStatus(msg); status != "" {
				return endOfBatch(status, msg.Header)
			}
			raw, err := directMsg(msg)
			if err != nil {
				return false, err
			}
			if e, ok := b.entry(raw); ok {
				entries = append(entries, e)
			}
			return false, nil
		})
	})
	return entries, b.wrap(err)
}

// Walk passes every key that begins with prefix to visit. It stops at an error
// of visit and returns that error unchanged. Walk reads the bucket's stream in
// constant memory. To list keys through a consumer, a program would need the
// right to create consumers, and a consumer can be pointed at any subject.
func (b *Bucket) Walk(ctx context.Context, prefix string, visit func(Entry) error) error {
	var stopped error
	err := b.reader.walk(ctx, b.stream(), b.prefix()+prefix+">", func(page []*settle.Message) error {
		for _, raw := range page {
			if e, ok := b.entry(raw); ok {
				if stopped = visit(e); stopped != nil {
					return stopped
				}
			}
		}
		return nil
	})
	if stopped != nil {
		return stopped
	}
	return b.wrap(err)
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
	stream, err := b.reader.stream(ctx, b.stream())
	if err != nil {
		return time.Time{}, b.wrap(err)
	}
	return stream.CachedInfo().TimeStamp, nil
}
