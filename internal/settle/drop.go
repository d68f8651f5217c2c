package settle

import (
	"context"
	"strconv"

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
	var l *Letter
	did := didDrop + strconv.FormatUint(listed.Seq, 10)
	_, err = q.updateRecord(ctx, listed.Token(), func(now Entry) (*order.Record, error) {
		cur := now.Record
		if err := q.requireNonePending(ctx, listed.OrderNo); err != nil {
			return nil, err
		}
		// Only now, after the record: a failure since would have changed it.
		if l, err = q.rereadListed(ctx, listed); err != nil || l == nil {
			return nil, err
		}
		if cur == nil || cur.Intervened(did) {
			return nil, nil // the result has expired, or an earlier run wrote it
		}
		next := *cur
		if cur.IntentID == l.IntentID { // otherwise a later intent was settled, and its letter is not this one
			next.Dropped = cur.Outcome().NeedsLetter()
		}
		next.Intervene(p.did(did, q.time.Now()))
		return &next, nil
	})
	if err != nil || l == nil {
		return err == nil, err
	}
	return false, q.store.DeleteLetter(ctx, l.Token(), l)
}
