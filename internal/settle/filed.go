package settle

import (
	"context"
	"errors"

	"orderpost/internal/order"
)

// TokenOf returns the token that records and letters about a name are filed
// under. The name is an order_no. If no such order is known, it may also be
// what a listing shows for a message whose subject belongs to no order_no: the
// end of that subject, or the token that its letter is filed under.
func (lg *Ledger) TokenOf(ctx context.Context, name string) (string, error) {
	token, odd := FileToken(order.Token(name)), FileToken(name)
	if token == odd {
		return token, nil
	}
	known, err := lg.isFiled(ctx, token)
	if err != nil || known {
		return token, err
	}
	known, err = lg.hasRecord(ctx, odd)
	if err != nil || !known {
		return token, err
	}
	return odd, nil
}

// isFiled reports whether a record or a letter is filed under this token.
func (lg *Ledger) isFiled(ctx context.Context, token string) (bool, error) {
	known, err := lg.hasRecord(ctx, token)
	if err != nil || known {
		return known, err
	}
	l, err := lg.store.Letter(ctx, token)
	if errors.Is(err, ErrNotALetter) {
		return true, nil
	}
	return l != nil, err
}

// hasRecord reports whether a record is filed under this token, readable or
// not.
func (lg *Ledger) hasRecord(ctx context.Context, token string) (bool, error) {
	entry, err := lg.store.Record(ctx, token)
	if errors.Is(err, ErrUnreadable) {
		return true, nil
	}
	return entry.Record != nil, err
}

// Name returns the name by which commands find the letter.
func (l *Letter) Name() string {
	if l.FiledUnder == "" || l.FiledUnder == FileToken(order.Token(l.OrderNo)) || l.FiledUnder == FileToken(l.OrderNo) {
		return l.OrderNo
	}
	return l.FiledUnder
}
