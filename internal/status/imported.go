package status

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Conflict is the word for an order that was not sent because its order_no belongs to another
// order. It stands where an outcome's word does.
const Conflict = "conflict"

// RowOf returns the row's number from an intent ID of this batch.
func RowOf(id, batch string) (int, bool) {
	rest, ok := strings.CutPrefix(id, batch+":")
	if !ok {
		return 0, false
	}
	digits, _, _ := strings.Cut(rest, ":")
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0
}

// Unsettled counts the intents of an import that have no outcome yet.
func Unsettled(ctx context.Context, q *queue.Queue, batch string) (int, error) {
	n, err := UnsettledOf(ctx, q, []string{batch})
	return n[batch], err
}

// UnsettledOf is Unsettled for several imports, by their names. It reads the queue once.
func UnsettledOf(ctx context.Context, q *queue.Queue, batches []string) (n map[string]int, err error) {
	n = make(map[string]int, len(batches))
	for _, batch := range batches { // first: what leaves the waiting room is in the queue then
		waiting, err := q.Waiting.Of(ctx, imports.ImportToken(batch))
		if err != nil {
			return nil, err
		}
		n[batch] = int(waiting)
	}
	of := func(batch string) bool { _, asked := n[batch]; return asked }
	err = queue.EachPendingOf(ctx, q, of, func(page []*settle.Pending) error {
		numbers := make([]string, len(page))
		for i, p := range page {
			numbers[i] = p.OrderNo
		}
		records, err := q.Ledger.LastWords(ctx, numbers)
		for i, st := range records {
			if !st.Record.Settles(page[i].ID) { // otherwise its acknowledgement is under way
				n[page[i].Batch]++
			}
		}
		return err
	})
	return n, err
}

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
	// Last is when the last of the settled orders was; zero = none is.
	Last time.Time
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
		words[Conflict] = c.Conflicts
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
	return countSince(ctx, q, batch, 0)
}

// CountRun is CountBatch for the orders that the last run of an import stored. It reads only the
// results since that run began.
func CountRun(ctx context.Context, q *queue.Queue, imp *imports.Import) (*Counted, error) {
	last, err := queue.LastResult(ctx, q)
	if err != nil {
		return nil, err
	}
	after := imp.FirstResult
	if after > last { // the results are others than then
		after = 0
	}
	return countSince(ctx, q, imp.Batch, after)
}

// countSince is CountBatch that leaves out the results up to a sequence.
func countSince(ctx context.Context, q *queue.Queue, batch string, after uint64) (*Counted, error) {
	c := &Counted{Outcomes: make(map[order.Outcome]int)}
	waits := make(map[string]string) // the pending submission's ID, by order_no
	waiting := make(map[string]bool)
	// The waiting room first: what leaves it meanwhile is in the queue, or has a result.
	if err := queue.EachWaiting(ctx, q, batch, func(page []*settle.Message) error {
		for _, m := range page {
			no := settle.WaitingOrderNo(m)
			waits[no], waiting[no] = m.IntentID(), true
		}
		return nil
	}); err != nil {
		return nil, err
	}
	if err := queue.EachPending(ctx, q, batch, func(page []*settle.Pending) error {
		for _, p := range page {
			waits[p.OrderNo] = p.ID
			delete(waiting, p.OrderNo)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	_, err := queue.RecordsSince(ctx, q, after, func(r *order.Record) error {
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
		conflict := refused && outcome == order.OutcomeAccepted
		if conflict {
			c.Conflicts++
		}
		settled := outcome != order.OutcomeNone && id == "" && (belongs(about, r.Batch, batch) || refused && !conflict) // what was refused shares the doubt
		if settled {
			c.Outcomes[outcome]++
		}
		if (conflict || settled) && r.SettledAt.After(c.Last) {
			c.Last = r.SettledAt
		}
		return nil
	})
	c.Pending, c.Waiting = len(waits), len(waiting)
	return c, err
}
