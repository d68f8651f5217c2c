package door

import (
	"context"
	"fmt"

	"orderpost/internal/books"
)

// Outcome returns what became of a submission by now. "" as the ID means the last word on
// the order_no, whosever it is.
//
// ErrUnknownOrder means that nothing is pending and no result names the submission. The
// Outcome then has the Record if the order_no has one: results expire, and a later
// submission may have replaced this one. Other errors: ErrUnavailable, ErrClosed, ctx's.
func (d *Door) Outcome(ctx context.Context, orderNo, id string) (Outcome, error) {
	o, found, err := d.find(ctx, orderNo, id)
	if err != nil || found {
		return o, err
	}
	waits, err := d.scan(ctx, orderNo)
	if err != nil {
		return o, err
	}
	if w := waits.find(id); w != nil {
		return *w, nil
	}
	if waits.any { // it may have been moved into the queue between the two looks
		if o, found, err = d.find(ctx, orderNo, id); err != nil || found {
			return o, err
		}
	}
	return o, fmt.Errorf("%w: %s", ErrUnknownOrder, unknown(o, orderNo, id))
}

// unknown says what is known instead of a submission.
func unknown(o Outcome, orderNo, id string) string {
	switch {
	case o.Record == nil:
		return fmt.Sprintf("order %q has no result and is not pending; see whether it was stored", orderNo)
	default:
		return fmt.Sprintf("order %q is known, and not by the id %q: a later submission (%q) replaced it, or it was never stored", orderNo, id, o.Record.IntentID)
	}
}

// find looks at queue and results.
func (d *Door) find(ctx context.Context, orderNo, id string) (o Outcome, found bool, err error) {
	st, err := d.look(ctx, orderNo)
	if err != nil {
		return Outcome{OrderNo: orderNo, ID: id}, false, err
	}
	if p := st.Pending; p != nil && (id == "" || p.ID == id) {
		return Outcome{OrderNo: orderNo, ID: p.ID, Pending: true, Created: "unknown", Batch: p.Batch, Source: p.Source, Record: st.Record, Position: st.Seq}, true, nil
	}
	if o, found = of(st.Entry, id); found {
		return o, true, nil
	}
	return Outcome{OrderNo: orderNo, ID: id, Created: "unknown", Record: st.Record, Position: st.Seq}, false, nil
}

// look is one read of an order_no.
type look struct {
	orderNo string
	status  books.OrderStatus
	err     error
	done    chan struct{}
}

// look reads pending intent and record of an order_no, exactly (R2). Concurrent calls
// share reads.
func (d *Door) look(ctx context.Context, orderNo string) (books.OrderStatus, error) {
	l := &look{orderNo: orderNo, done: make(chan struct{})}
	d.looks.add(l)
	if err := d.awaits(ctx, l.done); err != nil {
		return books.OrderStatus{}, err
	}
	if l.err == nil && l.status.Unreadable != nil {
		return l.status, l.status.Unreadable
	}
	return l.status, d.unread(l.err)
}

// awaits waits for what another goroutine does.
func (d *Door) awaits(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.ctx.Done():
		return ErrClosed
	}
}

func (d *Door) lookUp(batch []*look) {
	numbers := make([]string, len(batch))
	for i, l := range batch {
		numbers[i] = l.orderNo
	}
	statuses, err := books.OrderStatuses(d.ctx, d.q, numbers)
	for i, l := range batch {
		if l.err = err; err == nil {
			l.status = statuses[i]
		}
		close(l.done)
	}
}
