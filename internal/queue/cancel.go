package queue

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/settle"
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
	return q.Cancel(ctx, by, q.PendingOfBatch(ctx, batch))
}

// PendingOfBatch and PendingOfOrder pass the stored intents of an import, or of
// one order_no, to Cancel and WouldCancel.
func (q *Queue) PendingOfBatch(ctx context.Context, batch string) func(visit func([]*settle.Pending) error) error {
	return func(visit func([]*settle.Pending) error) error { return q.EachPending(ctx, batch, visit) }
}

// PendingOfOrder is PendingOfBatch for one order_no.
func (q *Queue) PendingOfOrder(ctx context.Context, orderNo string) func(visit func([]*settle.Pending) error) error {
	return func(visit func([]*settle.Pending) error) error {
		standings, err := q.Standings(ctx, []string{orderNo})
		if err != nil || standings[0].Pending == nil {
			return err
		}
		return visit([]*settle.Pending{standings[0].Pending})
	}
}

// CancelOrder withdraws the pending intent of one order_no.
func (q *Queue) CancelOrder(ctx context.Context, orderNo, by string) (settle.Cancelled, error) {
	return q.Cancel(ctx, by, q.PendingOfOrder(ctx, orderNo))
}
