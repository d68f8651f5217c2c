package settle

import (
	"context"
	"errors"

	"orderpost/internal/order"
)

// Found is what the streams hold about one order.
type Found struct {
	Entry
	Letter *Letter
	// Pending: an intent is in the queue.
	Pending bool
}

// Find reads all that is known about an order_no. Where nothing is, it takes the
// name for what a listing shows of a message that came by a subject which is no
// order_no's: the end of that subject, or the token that its letter is filed
// under.
func (q *Protocol) Find(ctx context.Context, name string) (f Found, err error) {
	token, err := q.tokenOf(ctx, name)
	if err != nil {
		return f, err
	}
	if f.Entry, err = q.store.Record(ctx, token); err != nil {
		return f, err
	}
	if f.Letter, err = q.store.Letter(ctx, token); err != nil {
		return f, err
	}
	if f.Letter != nil {
		f.Letter.FiledUnder = token
	}
	f.Pending, err = q.IsPending(ctx, name)
	return f, err
}

// tokenOf is the token that records about a name are filed under.
func (q *Protocol) tokenOf(ctx context.Context, name string) (string, error) {
	token, odd := FileToken(order.Token(name)), FileToken(name)
	if token == odd {
		return token, nil
	}
	known, err := q.isFiled(ctx, token)
	if err != nil || known {
		return token, err
	}
	known, err = q.hasRecord(ctx, odd)
	if err != nil || !known {
		return token, err
	}
	return odd, nil
}

// isFiled: there is a record or a letter under this token.
func (q *Protocol) isFiled(ctx context.Context, token string) (bool, error) {
	known, err := q.hasRecord(ctx, token)
	if err != nil || known {
		return known, err
	}
	l, err := q.store.Letter(ctx, token)
	if errors.Is(err, ErrNotALetter) {
		return true, nil
	}
	return l != nil, err
}

func (q *Protocol) hasRecord(ctx context.Context, token string) (bool, error) {
	entry, err := q.store.Record(ctx, token)
	if errors.Is(err, ErrUnreadable) {
		return true, nil
	}
	return entry.Record != nil, err
}

// Name is what Find, and the commands that name one order, find the letter by.
func (l *Letter) Name() string {
	if l.FiledUnder == "" || l.FiledUnder == FileToken(order.Token(l.OrderNo)) || l.FiledUnder == FileToken(l.OrderNo) {
		return l.OrderNo
	}
	return l.FiledUnder
}
