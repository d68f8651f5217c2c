package queue

import (
	"context"
	"fmt"
	"time"
)

// OldestPending is when the oldest stored intent was stored, delayed ones and
// those in flight included; zero where there is none.
func (q *Queue) OldestPending(ctx context.Context) (time.Time, error) {
	stream, err := q.js.Stream(ctx, q.n.intents)
	if err != nil {
		return time.Time{}, fmt.Errorf("stream %s: %w", q.n.intents, err)
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
