package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// freedLook is the time between two looks at how far the queue's stream was trimmed.
const freedLook = 20 * time.Millisecond

// freed measures how long after it was settled an order's intent leaves the queue's stream.
// Only then do other producers find its order_no free.
type freed struct {
	looks []trimmed // read them after end
	end   func()
}

// trimmed is a moment and the first sequence that the stream still had.
type trimmed struct {
	at    time.Time
	first uint64
}

// watchFreed looks until end is called.
func watchFreed(ctx context.Context, q *queue.Queue) *freed {
	ctx, cancel := context.WithCancel(ctx)
	f := &freed{}
	var watching sync.WaitGroup
	watching.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(freedLook) {
			if state, err := q.Intents().State(ctx); err == nil {
				f.looks = append(f.looks, trimmed{time.Now(), state.FirstSeq})
			}
		}
	})
	f.end = func() { cancel(); watching.Wait() }
	return f
}

// quantile returns the time within which that share of the orders was free again, in
// seconds. The orders of one file get the sequences of their rows. Those that were not
// yet free when the trial ended do not count.
func (f *freed) quantile(ctx context.Context, q *queue.Queue, share float64) (float64, error) {
	var took []float64
	err := queue.EachRecord(ctx, q, func(r *order.Record) error {
		var row uint64
		if _, err := fmt.Sscanf(r.OrderNo, "B-%d", &row); err != nil {
			return fmt.Errorf("order %q is none of the bench's: %w", r.OrderNo, err)
		}
		at, _ := slices.BinarySearchFunc(f.looks, row+1, func(l trimmed, seq uint64) int {
			if l.first > seq {
				return 1
			}
			return -1
		})
		if at < len(f.looks) {
			took = append(took, f.looks[at].at.Sub(r.SettledAt).Seconds())
		}
		return nil
	})
	if err != nil || len(took) == 0 {
		return 0, err
	}
	slices.Sort(took)
	return took[int(share*float64(len(took)-1))], nil
}
