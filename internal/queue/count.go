package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Counts are the sizes of the streams.
type Counts struct {
	// Pending counts stored intents, delayed ones and those in flight included.
	Pending uint64 `json:"pending"`
	// Results counts the records that are kept, notes included.
	Results uint64 `json:"results"`
	// Letters counts dead letters. A letter whose body is stored in two
	// messages counts once.
	Letters uint64 `json:"dead_letters"`
	// Waiting counts the intents in the waiting room.
	Waiting uint64 `json:"waiting"`
	// LastIntent counts the intents that were ever stored.
	LastIntent uint64 `json:"last_intent"`
}

// Count reads the sizes of the streams.
func (q *Queue) Count(ctx context.Context) (c Counts, err error) {
	err = q.patiently(ctx, func(ctx context.Context) error {
		ctx, cancel := q.link.within(ctx, 2*requestTimeout)
		defer cancel()
		c, err = q.count(ctx)
		return err
	})
	return c, err
}

func (q *Queue) count(ctx context.Context) (Counts, error) {
	var c Counts
	var err error
	if c.Waiting, _, err = q.askExtent(ctx); err != nil { // first: what leaves is in the intents stream then
		return c, err
	}
	for _, s := range []struct {
		name string
		size *uint64
	}{{q.n.intents, &c.Pending}, {q.n.results, &c.Results}, {q.n.dead, &c.Letters}} {
		stream, err := q.js.Stream(ctx, s.name)
		if err != nil {
			return c, fmt.Errorf("stream %s: %w", s.name, err)
		}
		state := stream.CachedInfo().State
		*s.size = state.Msgs
		switch s.name {
		case q.n.intents:
			c.LastIntent = state.LastSeq
		case q.n.dead:
			tails, err := q.tails.count(ctx, stream, q.tailSubject("*", "*"))
			if err != nil {
				return c, fmt.Errorf("stream %s: %w", s.name, err)
			}
			c.Letters -= min(c.Letters, tails)
		}
	}
	return c, nil
}

// The broker finds the tails of letters by looking at every subject. That costs it
// about a millisecond for 10,000 subjects. A million would cost too much for every
// poll of every worker.
const (
	tailsOften = 10_000      // up to this many messages, every call counts the tails
	tailsEvery = time.Minute // beyond that, a count may be this old
)

// tailCount counts the letters that have a tail in a second message.
type tailCount struct {
	mu sync.Mutex
	n  uint64
	at time.Time
}

func (t *tailCount) count(ctx context.Context, stream jetstream.Stream, subjects string) (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if stream.CachedInfo().State.Msgs > tailsOften && time.Since(t.at) < tailsEvery {
		return t.n, nil
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subjects))
	if err != nil {
		return 0, err
	}
	t.n, t.at = uint64(len(info.State.Subjects)), time.Now()
	return t.n, nil
}
