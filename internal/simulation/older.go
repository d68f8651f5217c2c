package simulation

import (
	"context"
	"errors"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// olderStore is the broker as a worker of the oldest version sees it that this one may
// run beside (make upgrade): its records have no list of conflicts, no ID of the delivery,
// and nothing about the waiting room. A conflict that it refuses is named as the intent of
// the acceptance. It reads each record at the leader. The rest of the older worker is
// today's code.
type olderStore struct{ store }

func (s olderStore) Record(ctx context.Context, token string) (settle.Entry, error) {
	e, err := s.store.Record(ctx, token)
	if e.Record != nil {
		e.Record.Conflicts, e.Record.Moved, e.Record.Waited = nil, nil, false
	}
	return e, err
}

var errOneByOne = errors.New("this version reads one by one")

// Records implements settle.Store. Its caller reads one by one then.
func (s olderStore) Records(context.Context, []string, func(int, settle.Entry, error) error) error {
	return errOneByOne
}

func (s olderStore) PutRecord(ctx context.Context, token string, r *order.Record, expect uint64) (uint64, error) {
	old := *r
	old.DeliveryID, old.Moved, old.Waited = "", nil, false
	if n := len(r.Conflicts); n > 0 {
		last := r.Conflicts[n-1]
		old.IntentID, old.EnqueuedAt, old.Conflicts = last.IntentID, last.EnqueuedAt, nil
	}
	return s.store.PutRecord(ctx, token, &old, expect)
}
