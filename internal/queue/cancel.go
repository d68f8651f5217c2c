package queue

import (
	"context"
	"errors"
	"orderpost/internal/settle"
	"time"
)

// CancelBatch withdraws what was never delivered of an import, and notes that
// it was cancelled, so that a run that is still under way stops.
func (q *Queue) CancelBatch(ctx context.Context, batch, by string) (settle.Cancelled, error) {
	for {
		i, err := q.Import(ctx, batch)
		if err != nil {
			return settle.Cancelled{}, err
		}
		if i == nil {
			break
		}
		i.CancelledAt = time.Now().UTC()
		if err := q.SaveImport(ctx, i); err == nil {
			break
		} else if !errors.Is(err, ErrImportChanged) {
			return settle.Cancelled{}, err
		}
	}
	return q.Cancel(ctx, by, func(visit func([]*settle.Pending) error) error { return q.EachPending(ctx, batch, visit) })
}

// CancelOrder withdraws the pending intent of one order_no.
func (q *Queue) CancelOrder(ctx context.Context, orderNo, by string) (settle.Cancelled, error) {
	return q.Cancel(ctx, by, func(visit func([]*settle.Pending) error) error {
		standings, err := q.Standings(ctx, []string{orderNo})
		if err != nil || standings[0].Pending == nil {
			return err
		}
		return visit([]*settle.Pending{standings[0].Pending})
	})
}
