package settle

import (
	"context"
	"fmt"

	"orderpost/internal/order"
)

// Drop forgets a dead letter. The result stays, and says who dropped the
// letter, so that an audit does not miss it; that is written before the letter
// goes. Repeated after a crash it completes what is missing. gone is true where
// the letter was not there any more, or another one had taken its place.
//
// ErrPending is returned while an intent for the order_no is in the queue:
// its redelivery would file the letter again. Nothing was changed then.
func (q *Protocol) Drop(ctx context.Context, listed *Letter, p Person) (gone bool, err error) {
	l, err := q.letterAgain(ctx, listed)
	if err != nil || l == nil {
		return l == nil, err
	}
	did := fmt.Sprintf("dropped dead letter %d", l.Seq)
	_, err = q.amend(ctx, l.Token(), func(cur *order.Record) (*order.Record, error) {
		if err := q.requireNonePending(ctx, l.OrderNo); err != nil {
			return nil, err
		}
		if cur == nil || cur.Intervened(did) {
			return nil, nil // expired results leave nothing to write it on
		}
		next := *cur
		next.Dropped = cur.Outcome().NeedsLetter()
		next.Intervene(p.did(did, q.time.Now()))
		return &next, nil
	})
	if err != nil {
		return false, err
	}
	return false, q.store.DeleteLetter(ctx, l.Token(), l)
}
