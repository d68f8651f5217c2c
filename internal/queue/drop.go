package queue

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
func (q *Queue) Drop(ctx context.Context, listed *Letter, p Person) (gone bool, err error) {
	l, err := q.letterAgain(ctx, listed)
	if err != nil || l == nil {
		return l == nil, err
	}
	did := fmt.Sprintf("dropped dead letter %d", l.Seq)
	_, err = q.amend(ctx, l.token(), func(cur *order.Record) (*order.Record, error) {
		if err := q.quiet(ctx, l.OrderNo); err != nil {
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
	return false, q.store.DeleteLetter(ctx, l.token(), l)
}

// WouldDrop gives those of listed letters, 256 at most, that Drop would forget
// now: no intent for their order_no is in the queue.
func (q *Queue) WouldDrop(ctx context.Context, letters []*Letter) ([]*Letter, error) {
	numbers := make([]string, len(letters))
	for i, l := range letters {
		numbers[i] = l.OrderNo
	}
	var out []*Letter
	pending := make([]bool, len(letters))
	err := q.lookups(ctx, q.n.intents, numbers, func(no string) string { return q.n.newPre + fileToken(order.Token(no)) },
		func(i int, _ *rawMsg) error {
			pending[i] = true
			return nil
		})
	for i, l := range letters {
		if !pending[i] {
			out = append(out, l)
		}
	}
	return out, err
}
