package settle

import (
	"context"
	"fmt"

	"orderpost/internal/order"
)

// Drop removes a dead letter. The result stays and names who dropped the
// letter, so that an audit does not miss the letter. Drop writes that first.
// Repeated after a crash, it completes what is missing. gone reports that the
// letter was removed or replaced before.
//
// Drop changes nothing and returns ErrPending while an intent for the order_no
// is stored, because the intent's redelivery would file the letter again.
func (q *Protocol) Drop(ctx context.Context, listed *Letter, p Person) (gone bool, err error) {
	l, err := q.rereadListed(ctx, listed)
	if err != nil || l == nil {
		return l == nil, err
	}
	did := fmt.Sprintf("dropped dead letter %d", l.Seq)
	_, err = q.updateRecord(ctx, l.Token(), func(cur *order.Record) (*order.Record, error) {
		if err := q.requireNonePending(ctx, l.OrderNo); err != nil {
			return nil, err
		}
		if cur == nil || cur.Intervened(did) {
			return nil, nil // the result has expired, or an earlier run wrote it
		}
		next := *cur
		if cur.IntentID == l.IntentID { // otherwise a later intent was settled since the letter was read again
			next.Dropped = cur.Outcome().NeedsLetter()
		}
		next.Intervene(p.did(did, q.time.Now()))
		return &next, nil
	})
	if err != nil {
		return false, err
	}
	return false, q.store.DeleteLetter(ctx, l.Token(), l)
}
