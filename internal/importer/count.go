package importer

import (
	"context"
	"slices"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Counted is the state of an import's orders according to the streams. Each order
// counts once, whatever ID it was last submitted under. A replay keeps the import's
// batch.
type Counted struct {
	// Waiting is how many of the pending orders are in the waiting room.
	Waiting int
	// Outcomes counts the settled orders. Conflicts counts the orders that were not
	// sent because their order_no belongs to another order. Pending orders have no
	// outcome yet or wait to be sent again.
	Outcomes           map[order.Outcome]int
	Conflicts, Pending int
	// Elsewhere counts the orders of which another submission has the outcome since.
	Elsewhere int
}

// Total returns the number of the import's orders that the streams know.
func (c *Counted) Total() int {
	n := c.Pending + c.Conflicts
	for _, k := range c.Outcomes {
		n += k
	}
	return n
}

// Words returns the counts by the outcomes' words.
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

// belongs reports whether an intent is the import's own or a replay of one.
func belongs(id, named, batch string) bool {
	_, ours := RowOf(id, batch)
	return ours || named == batch
}

// CountBatch counts the orders of a batch. It reads the intents and the results once
// and holds the pending orders in memory. An order that a later import enqueued again
// counts there.
func CountBatch(ctx context.Context, q *queue.Queue, batch string) (*Counted, error) {
	c := &Counted{Outcomes: make(map[order.Outcome]int)}
	waits := make(map[string]string) // the pending submission's ID, by order_no
	waiting := make(map[string]bool)
	// The waiting room first: what leaves it meanwhile is in the queue, or has a result.
	if err := books.EachWaiting(ctx, q, batch, func(page []*settle.Message) error {
		for _, m := range page {
			no := settle.WaitingOrderNo(m)
			waits[no], waiting[no] = m.IntentID(), true
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if err := books.EachPending(ctx, q, batch, func(page []*settle.Pending) error {
		for _, p := range page {
			waits[p.OrderNo] = p.ID
			delete(waiting, p.OrderNo)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	_, err := books.RecordsSince(ctx, q, 0, func(r *order.Record) error {
		outcome, id := r.Outcome(), waits[r.OrderNo]
		if r.Settles(id) || outcome == order.OutcomeAccepted { // its acknowledgement is under way, or the order exists already
			delete(waits, r.OrderNo)
			delete(waiting, r.OrderNo)
			id = ""
		}
		about := r.IntentID
		if r.ConflictOf(about) != nil {
			about = "" // the body is that of an earlier intent
		}
		refused := slices.ContainsFunc(r.Conflicts, func(x order.Conflict) bool { return belongs(x.IntentID, x.Batch, batch) })
		if !belongs(about, r.Batch, batch) && id == "" && slices.ContainsFunc(r.Earlier, func(e order.Earlier) bool { return e.Batch == batch }) {
			c.Elsewhere++
		}
		if refused && outcome == order.OutcomeAccepted {
			c.Conflicts++
		}
		if outcome != order.OutcomeNone && id == "" && (belongs(about, r.Batch, batch) || refused && outcome != order.OutcomeAccepted) { // what was refused shares the doubt
			c.Outcomes[outcome]++
		}
		return nil
	})
	c.Pending, c.Waiting = len(waits), len(waiting)
	return c, err
}
