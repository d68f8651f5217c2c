package queue

import (
	"context"
	"errors"
	"strings"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// LastResult is the sequence of the newest record, for RecordsSince to begin
// behind.
func (q *Queue) LastResult(ctx context.Context) (uint64, error) {
	stream, err := q.stream(ctx, q.n.results)
	if err != nil {
		return 0, err
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// RecordsSince passes the records whose sequence is greater than after to
// visit, oldest first, and returns the sequence of the last one. A record that
// was replaced meanwhile is seen once, as it is now. Unreadable ones are left
// out.
func (q *Queue) RecordsSince(ctx context.Context, after uint64, visit func(*order.Record) error) (last uint64, err error) {
	last = after
	for next := after + 1; next != 0; {
		var page []*settle.Message
		if page, next, err = q.page(ctx, q.n.results, q.n.resPre+"*", next); err != nil {
			return last, err
		}
		for _, raw := range page {
			last = raw.Seq
			entry, err := decodeRecord(raw)
			if errors.Is(err, settle.ErrUnreadable) {
				continue
			}
			if err == nil {
				err = visit(entry.Record)
			}
			if err != nil {
				return last, err
			}
		}
	}
	return last, nil
}

// EachPending passes the stored intents of a batch to visit, page by page.
func (q *Queue) EachPending(ctx context.Context, batch string, visit func([]*settle.Pending) error) error {
	return q.walk(ctx, q.n.intents, q.n.newPre+"*", func(page []*settle.Message) error {
		var mine []*settle.Pending
		for _, raw := range page {
			if raw.Header.Get(settle.HeaderBatch) != batch {
				continue
			}
			no, err := order.OrderNoFromToken(strings.TrimPrefix(raw.Subject, q.n.newPre))
			if err != nil {
				continue // no import of ours wrote it
			}
			mine = append(mine, settle.ReadPending(no, raw))
		}
		if len(mine) == 0 {
			return nil
		}
		return visit(mine)
	})
}
