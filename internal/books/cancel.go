package books

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// CancelBatch withdraws what was never delivered of an import. It notes that the
// import was cancelled, so that a run that is still under way stops.
func CancelBatch(ctx context.Context, q *queue.Queue, batch, by string) (settle.Cancelled, error) {
	for {
		i, err := ReadImport(ctx, q, batch)
		if err != nil {
			return settle.Cancelled{}, err
		}
		if i == nil {
			break
		}
		i.CancelledAt = time.Now().UTC()
		if err := SaveImport(ctx, q, i); err == nil {
			break
		} else if !errors.Is(err, ErrImportChanged) {
			return settle.Cancelled{}, err
		}
	}
	return q.Cancel(ctx, by, PendingOfBatch(ctx, q, batch))
}

// CancelOrder withdraws the pending intent of one order_no.
func CancelOrder(ctx context.Context, q *queue.Queue, orderNo, by string) (settle.Cancelled, error) {
	return q.Cancel(ctx, by, PendingOfOrder(ctx, q, orderNo))
}

// PendingOfBatch lists the stored intents of an import, for settle.Protocol's
// Cancel and WouldCancel.
func PendingOfBatch(ctx context.Context, q *queue.Queue, batch string) func(visit func([]*settle.Pending) error) error {
	return func(visit func([]*settle.Pending) error) error { return EachPending(ctx, q, batch, visit) }
}

// PendingOfOrder is PendingOfBatch for one order_no.
func PendingOfOrder(ctx context.Context, q *queue.Queue, orderNo string) func(visit func([]*settle.Pending) error) error {
	return func(visit func([]*settle.Pending) error) error {
		statuses, err := OrderStatuses(ctx, q, []string{orderNo})
		if err != nil || statuses[0].Pending == nil {
			return err
		}
		return visit([]*settle.Pending{statuses[0].Pending})
	}
}
