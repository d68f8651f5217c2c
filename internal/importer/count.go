package importer

import (
	"context"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Counted is how the orders of an import stand, by the streams alone. Each order
// counts once, under whatever ID it was submitted last: a replay carries the
// import's name along.
type Counted struct {
	// Outcomes counts the orders that are settled, Conflicts those that were not
	// sent since their order_no belongs to another order. Pending orders have no
	// outcome yet, or wait to be sent again.
	Outcomes           map[order.Outcome]int
	Conflicts, Pending int
}

// Total is the number of the import's orders that the streams know.
func (c *Counted) Total() int {
	n := c.Pending + c.Conflicts
	for _, k := range c.Outcomes {
		n += k
	}
	return n
}

// Words gives the outcomes by their words.
func (c *Counted) Words() map[string]int {
	words := make(map[string]int, len(c.Outcomes)+1)
	for o, n := range c.Outcomes {
		words[o.String()] = n
	}
	if c.Conflicts > 0 {
		words[outcomeConflict] = c.Conflicts
	}
	return words
}

// belongs: the submission is the import's own, or repeats one of it.
func belongs(id, named, batch string) bool {
	_, ours := rowOf(id, batch)
	return ours || named == batch
}

// CountBatch reads intents and results once, and remembers the pending orders.
// Orders that a later import took over are counted there.
func CountBatch(ctx context.Context, q *queue.Queue, batch string) (*Counted, error) {
	c := &Counted{Outcomes: make(map[order.Outcome]int)}
	waits := make(map[string]string) // the pending submission's ID, by order_no
	if err := books.EachPending(ctx, q, batch, func(page []*settle.Pending) error {
		for _, p := range page {
			waits[p.OrderNo] = p.ID
		}
		return nil
	}); err != nil {
		return nil, err
	}
	_, err := books.RecordsSince(ctx, q, 0, func(r *order.Record) error {
		outcome, id := r.Outcome(), waits[r.OrderNo]
		if r.Settles(id) || outcome == order.OutcomeAccepted { // its acknowledgement is on its way, or another intent changes nothing
			delete(waits, r.OrderNo)
			id = ""
		}
		for i := range r.Conflicts {
			if refused := &r.Conflicts[i]; r.ConflictOf(refused.IntentID) != nil && belongs(refused.IntentID, refused.Batch, batch) {
				c.Conflicts++
			}
		}
		if outcome != order.OutcomeNone && id == "" && r.ConflictOf(r.IntentID) == nil && belongs(r.IntentID, r.Batch, batch) {
			c.Outcomes[outcome]++
		}
		return nil
	})
	c.Pending = len(waits)
	return c, err
}
