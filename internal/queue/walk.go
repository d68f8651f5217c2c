package queue

import (
	"context"
	"errors"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// EachRecord passes the last word on every order_no to visit, in the order in
// which they were written, in constant memory. It ends at an unreadable one with
// an error.
func EachRecord(ctx context.Context, q *Queue, visit func(*order.Record) error) error {
	return q.Results().Walk(ctx, 1, ToTheEnd, func(page []*settle.Message) error {
		for _, m := range page {
			entry, err := DecodeRecord(m)
			if err != nil {
				return err
			}
			if err := visit(entry.Record); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachPending passes the stored intents of an import to visit, page by page, but none
// that is stored later than its call.
func EachPending(ctx context.Context, q *Queue, batch string, visit func([]*settle.Pending) error) error {
	return EachPendingOf(ctx, q, func(b string) bool { return b == batch }, visit)
}

// EachPendingOf is EachPending for all imports whose names of says true of.
func EachPendingOf(ctx context.Context, q *Queue, of func(batch string) bool, visit func([]*settle.Pending) error) error {
	intents := q.Intents()
	now, err := intents.State(ctx)
	if err != nil {
		return err
	}
	return intents.Walk(ctx, 1, now.LastSeq, func(page []*settle.Message) error {
		var mine []*settle.Pending
		for _, m := range page {
			if !of(m.Header.Get(settle.HeaderBatch)) {
				continue
			}
			no, err := order.OrderNoFromToken(intents.Token(m))
			if err != nil {
				continue // no import of ours wrote it
			}
			mine = append(mine, settle.ReadPending(no, m))
		}
		if len(mine) == 0 {
			return nil
		}
		return visit(mine)
	})
}

// EachWaiting passes the waiting intents of an import to visit, page by page. The
// subject names the import that an intent waits in, whatever its header says.
func EachWaiting(ctx context.Context, q *Queue, batch string, visit func([]*settle.Message) error) error {
	return q.Waiting.Each(ctx, settle.ImportToken(batch), ToTheEnd, visit)
}

// LastResult is the sequence of the newest record. RecordsSince can begin behind
// it.
func LastResult(ctx context.Context, q *Queue) (uint64, error) {
	state, err := q.Results().State(ctx)
	return state.LastSeq, err
}

// RecordsSince passes the records whose sequence is greater than after to visit,
// oldest first, and returns the sequence of the last one. A record that is
// replaced meanwhile is seen once, as it is now. Unreadable ones are left out.
func RecordsSince(ctx context.Context, q *Queue, after uint64, visit func(*order.Record) error) (last uint64, err error) {
	last = after
	err = q.Results().Walk(ctx, after+1, ToTheEnd, func(page []*settle.Message) error {
		for _, m := range page {
			last = m.Seq
			entry, err := DecodeRecord(m)
			if errors.Is(err, settle.ErrUnreadable) {
				continue
			}
			if err == nil {
				err = visit(entry.Record)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return last, err
}
