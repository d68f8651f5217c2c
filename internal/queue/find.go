package queue

import (
	"context"

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
func (q *Queue) Find(ctx context.Context, name string) (f Found, err error) {
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
func (q *Queue) tokenOf(ctx context.Context, name string) (string, error) {
	token, odd := fileToken(order.Token(name)), fileToken(name)
	if token == odd {
		return token, nil
	}
	for _, subject := range []struct{ stream, prefix string }{{q.n.results, q.n.resPre}, {q.n.dead, q.n.deadPre}} {
		raw, err := q.lastMsg(ctx, subject.stream, subject.prefix+token)
		if err != nil || raw != nil {
			return token, err
		}
	}
	raw, err := q.lastMsg(ctx, q.n.results, q.n.resPre+odd)
	if err != nil || raw == nil {
		return token, err
	}
	return odd, nil
}

// Name is what Find, and the commands that name one order, find the letter by.
func (l *Letter) Name() string {
	if l.FiledUnder == "" || l.FiledUnder == fileToken(order.Token(l.OrderNo)) || l.FiledUnder == fileToken(l.OrderNo) {
		return l.OrderNo
	}
	return l.FiledUnder
}
