package door

import (
	"context"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// Wait returns what became of one submission once it has its outcome. When ctx ends
// first, it returns what is known by then, which is Pending, and ctx's error. "" as the ID
// means the next outcome of the order_no, whosever it is, or the one that it has.
//
// A wait costs no request while nothing happens. Errors: those of Outcome, but for
// ErrUnavailable: while the broker is out of reach, a wait goes on until ctx ends.
func (d *Door) Wait(ctx context.Context, orderNo, id string) (Outcome, error) {
	w := &waiter{token: settle.FileToken(order.Token(orderNo)), news: make(chan *entry, 1)}
	ready := d.follow.await(w)
	defer d.follow.forget(w)
	o := Outcome{OrderNo: orderNo, ID: id, Pending: true, Created: "unknown"}
	if err := d.awaits(ctx, ready); err != nil {
		return o, err
	}
	o, err := d.lookAgain(ctx, o, id)
	for err == nil && o.Pending {
		o, err = d.next(ctx, w, o, id)
	}
	return o, err
}

// next waits for a record, and returns what became of the submission by then.
func (d *Door) next(ctx context.Context, w *waiter, o Outcome, id string) (Outcome, error) {
	select {
	case <-ctx.Done():
		return o, ctx.Err()
	case <-d.ctx.Done():
		return o, ErrClosed
	case e := <-w.news:
		if e != nil {
			if now, ok := of(e.read(), id); ok {
				return now, nil
			}
		}
	}
	// The record is about another submission. It may have replaced ours.
	return d.lookAgain(ctx, o, id)
}

// lookAgain is Outcome for a wait that has begun: an outage does not end it.
func (d *Door) lookAgain(ctx context.Context, o Outcome, id string) (Outcome, error) {
	for {
		now, err := d.Outcome(ctx, o.OrderNo, id)
		switch {
		case ctx.Err() != nil:
			return o, ctx.Err()
		case err == nil || !isUnavailable(err):
			return now, err
		}
		if err := settle.RealTime().Sleep(ctx, longestLook); err != nil {
			return o, err
		}
	}
}
