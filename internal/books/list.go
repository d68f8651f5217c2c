package books

import (
	"context"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// EachRecord passes the last word on every order_no to visit, in the order in
// which they were written, in constant memory. It ends at an unreadable one with
// an error.
func EachRecord(ctx context.Context, q *queue.Queue, visit func(*order.Record) error) error {
	return q.Results().Walk(ctx, 1, queue.ToTheEnd, func(page []*settle.Message) error {
		for _, m := range page {
			entry, err := queue.DecodeRecord(m)
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

// EachLetter is LetterPages for one letter at a time.
func EachLetter(ctx context.Context, q *queue.Queue, visit func(*settle.Letter) error) error {
	return LetterPages(ctx, q, func(page []*settle.Letter) error {
		for _, l := range page {
			if err := visit(l); err != nil {
				return err
			}
		}
		return nil
	})
}

// EachPending passes the stored intents of an import to visit, page by page, but none
// that is stored later than its call.
func EachPending(ctx context.Context, q *queue.Queue, batch string, visit func([]*settle.Pending) error) error {
	intents := q.Intents()
	now, err := intents.State(ctx)
	if err != nil {
		return err
	}
	return intents.Walk(ctx, 1, now.LastSeq, func(page []*settle.Message) error {
		var mine []*settle.Pending
		for _, m := range page {
			if m.Header.Get(settle.HeaderBatch) != batch {
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
func EachWaiting(ctx context.Context, q *queue.Queue, batch string, visit func([]*settle.Message) error) error {
	return q.Waiting.Each(ctx, ImportToken(batch), queue.ToTheEnd, visit)
}
