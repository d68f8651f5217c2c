package settle

import (
	"context"
	"errors"

	"orderpost/internal/order"
)

// LastWord is the record of an order_no.
type LastWord struct {
	// Entry is the record; its Record is nil where there is none.
	Entry
	// Unreadable is set where there is a record that this program does not
	// understand.
	Unreadable error
}

// LastWords reads the record of each order_no, in the order of orderNos. An
// unreadable one has its error in Unreadable, and no record.
func (q *Protocol) LastWords(ctx context.Context, orderNos []string) ([]LastWord, error) {
	out := make([]LastWord, len(orderNos))
	if len(orderNos) == 1 {
		entry, err := q.Lookup(ctx, orderNos[0])
		if errors.Is(err, ErrUnreadable) {
			out[0].Unreadable, err = err, nil
		}
		out[0].Entry = entry
		return out, err
	}
	tokens := make([]string, len(orderNos))
	for i, no := range orderNos {
		tokens[i] = FileToken(order.Token(no))
	}
	return out, q.store.Records(ctx, tokens, func(i int, e Entry, err error) error {
		if errors.Is(err, ErrUnreadable) {
			out[i].Unreadable, err = err, nil
		}
		out[i].Entry = e
		return err
	})
}
