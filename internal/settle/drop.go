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
func (op *Operator) Drop(ctx context.Context, listed *Letter, p Person) (gone bool, err error) {
	var l *Letter
	did := didDrop + strconv.FormatUint(listed.Seq, 10)
	_, err = op.ledger.updateRecord(ctx, listed.Token(), func(now Entry) (*order.Record, error) {
		cur := now.Record
		if err := op.requireNonePending(ctx, listed.OrderNo); err != nil {
			return nil, err
		}
		// Only now, after the record: a failure since would have changed it.
		if l, err = op.ledger.rereadListed(ctx, listed); err != nil || l == nil {
			return nil, err
		}
		if cur == nil || cur.Intervened(did) {
			return nil, nil // the result has expired, or an earlier run wrote it
		}
		next := *cur
		if cur.Settles(l.IntentID) { // otherwise a later intent was settled, and its letter is not this one
			next.Dropped = cur.Outcome().NeedsLetter()
		}
		next.Intervene(p.did(did, op.ledger.time.Now()))
		return &next, nil
	})
	if err != nil || l == nil {
		return err == nil, err
	}
	return false, op.ledger.store.DeleteLetter(ctx, l.Token(), l)
}
