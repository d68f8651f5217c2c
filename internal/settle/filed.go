package settle

import (
	"context"
	"errors"

	"orderpost/internal/order"
)

// TokenOf is the token that records and letters about a name are filed under.
// The name is an order_no. Where nothing is known of such an order, it may also
// be what a listing shows of a message whose subject belongs to no order_no: the
// end of that subject, or the token that its letter is filed under.
func (q *Protocol) TokenOf(ctx context.Context, name string) (string, error) {
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

// isFiled says whether there is a record or a letter under this token.
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

// Name is what the commands that name one order find the letter by.
func (l *Letter) Name() string {
	if l.FiledUnder == "" || l.FiledUnder == FileToken(order.Token(l.OrderNo)) || l.FiledUnder == FileToken(l.OrderNo) {
		return l.OrderNo
	}
	return l.FiledUnder
}
