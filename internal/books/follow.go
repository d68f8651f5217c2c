package books

import (
	"context"
	"errors"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// LastResult is the sequence of the newest record. RecordsSince can begin behind
// it.
func LastResult(ctx context.Context, q *queue.Queue) (uint64, error) {
	state, err := q.Results().State(ctx)
	return state.LastSeq, err
}

// RecordsSince passes the records whose sequence is greater than after to visit,
// oldest first, and returns the sequence of the last one. A record that is
// replaced meanwhile is seen once, as it is now. Unreadable ones are left out.
func RecordsSince(ctx context.Context, q *queue.Queue, after uint64, visit func(*order.Record) error) (last uint64, err error) {
	last = after
	err = q.Results().Walk(ctx, after+1, queue.ToTheEnd, func(page []*settle.Message) error {
		for _, m := range page {
			last = m.Seq
			entry, err := queue.DecodeRecord(m)
			if errors.Is(err, settle.ErrUnreadable) {
				continue
			}
			if err == nil {
				err = visit(entry.Record)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return last, err
}
