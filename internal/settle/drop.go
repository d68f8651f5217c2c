package settle

import (
	"context"
	"strconv"

	"orderpost/internal/order"
)

// Drop removes a dead letter. The result stays and says who dropped the
// letter. gone reports that no record named the letter any more.
//
// Drop changes nothing and returns ErrPending while an intent for the order_no
// is stored that has no outcome yet.
func (op *Operator) Drop(ctx context.Context, listed *Letter, p Person) (gone bool, err error) {
	did := didDrop + strconv.FormatUint(listed.Seq, 10)
	_, err = op.ledger.updateRecord(ctx, listed.Token(), func(now Entry) (*order.Record, error) {
		if gone = now.Record == nil || !now.Record.Names(listed.Seq); gone {
			return nil, nil
		}
		if err := op.requireNonePending(ctx, listed.OrderNo); err != nil {
			return nil, err
		}
		next := now.Record.WithoutLetter(listed.Seq)
		next.Intervene(p.did(did, op.ledger.time.Now()))
		return next, nil
	})
	return gone, err
}
