package importer

import (
	"context"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Counted is how the orders of an import stand, by the streams alone.
type Counted struct {
	// Outcomes counts the orders whose last word is about a submission of the
	// import; Pending those that have no outcome yet.
	Outcomes map[order.Outcome]int
	Pending  int
}

// Total is the number of the import's orders that the streams know.
func (c *Counted) Total() int {
	n := c.Pending
	for _, k := range c.Outcomes {
		n += k
	}
	return n
}

// Words gives the outcomes by their words.
func (c *Counted) Words() map[string]int {
	words := make(map[string]int, len(c.Outcomes))
	for o, n := range c.Outcomes {
		words[o.String()] = n
	}
	return words
}

// CountBatch reads results and intents once, in constant memory. Orders that a
// later import took over are counted there.
func CountBatch(ctx context.Context, q *queue.Queue, batch string) (*Counted, error) {
	c := &Counted{Outcomes: make(map[order.Outcome]int)}
	if _, err := q.RecordsSince(ctx, 0, func(r *order.Record) error {
		if _, ours := rowOf(r.IntentID, batch); ours && r.Outcome() != order.OutcomeNone {
			c.Outcomes[r.Outcome()]++
		}
		return nil
	}); err != nil {
		return nil, err
	}
	return c, q.EachPending(ctx, batch, func(page []*settle.Pending) error {
		numbers := make([]string, len(page))
		for i, p := range page {
			numbers[i] = p.OrderNo
		}
		records, err := q.Records(ctx, numbers)
		for i, st := range records {
			if st.Record.Outcome() == order.OutcomeNone || st.Record.IntentID != page[i].ID {
				c.Pending++ // else it is settled, and its acknowledgement on its way
			}
		}
		return err
	})
}
