package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"orderpost/internal/order"
)

// OldestPending is when the oldest stored intent was stored, delayed ones and
// those in flight included; zero where there is none.
func (q *Queue) OldestPending(ctx context.Context) (time.Time, error) {
	stream, err := q.stream(ctx, q.n.intents)
	if err != nil {
		return time.Time{}, err
	}
	state := stream.CachedInfo().State
	if state.Msgs == 0 {
		return time.Time{}, nil // FirstTime then says something else
	}
	return state.FirstTime, nil
}

// LeasesLost counts the claims that were over before their orders were done
// with, since Open.
func (q *Queue) LeasesLost() uint64 { return q.leases.lost.Load() }

// Waiting is the number of intents that no worker has been given yet: neither
// those in flight nor those whose delay is not over.
func (q *Queue) Waiting(ctx context.Context) (uint64, error) {
	info, err := q.consumer.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("consumer of stream %s: %w", q.n.intents, err)
	}
	return info.NumPending, nil
}

// LettersFiled counts the dead letters with this outcome that were filed
// since Open.
func (q *Queue) LettersFiled(o order.Outcome) uint64 { return q.filed[o].Load() }

// failures counts the writes to one stream that were not confirmed. All of them
// are repeated; a write that somebody else's was ahead of is none.
type failures struct{ refused, unconfirmed atomic.Uint64 }

func (f *failures) note(err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrStorage):
		f.refused.Add(1)
	case errors.Is(err, errUnconfirmed):
		f.unconfirmed.Add(1)
	}
}

// WriteFailures counts the writes to one stream that failed since Open.
type WriteFailures struct {
	// Refused: the broker had no room, or its storage failed (ErrStorage).
	Refused uint64
	// Unconfirmed: the broker did not answer, or was busy with itself. The
	// write may have happened, and was looked up or repeated.
	Unconfirmed uint64
}

func (f *failures) read() WriteFailures {
	return WriteFailures{Refused: f.refused.Load(), Unconfirmed: f.unconfirmed.Load()}
}

// ResultFailures counts failed writes of results, notes included, since Open.
func (q *Queue) ResultFailures() WriteFailures { return q.results.failed.read() }

// LetterFailures counts failed writes of dead letters since Open.
func (q *Queue) LetterFailures() WriteFailures { return q.letters.failed.read() }
