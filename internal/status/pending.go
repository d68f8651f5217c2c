package status

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// The states of a pending order.
const (
	// StateQueued: no worker was given the order yet.
	StateQueued = "queued"
	// StateTaken: a worker was given it, and no attempt is on record. It is in hand, or it
	// comes back to the queue.
	StateTaken = "taken"
	// StateRetrying: attempts are on record, and none settled it.
	StateRetrying = "retrying"
)

// PendingOrder is an order in the queue that has no outcome yet.
type PendingOrder struct {
	OrderNo  string    `json:"order_no"`
	State    string    `json:"state"`
	Batch    string    `json:"batch,omitempty"`
	Source   string    `json:"source,omitempty"`
	IntentID string    `json:"intent_id"`
	StoredAt time.Time `json:"stored_at"`
	// Attempts and what follows are on record of this order; those of an attempt that is
	// under way are not.
	Attempts      int           `json:"attempts"`
	LastAttemptAt time.Time     `json:"last_attempt_at,omitzero"`
	Verdict       order.Verdict `json:"verdict,omitzero"`
	Status        int           `json:"status,omitempty"`
	Reason        string        `json:"reason,omitempty"`
	Error         string        `json:"error,omitempty"`
	Response      string        `json:"response,omitempty"`
	Unsure        bool          `json:"unsure,omitempty"`
	Worker        string        `json:"worker,omitempty"`
	// NextAt is the earliest time of the next attempt; zero = as soon as a worker is free.
	NextAt time.Time `json:"next_at,omitzero"`
	// Seq is the sequence of its intent.
	Seq uint64 `json:"-"`
}

// PendingFilter selects pending orders.
type PendingFilter struct {
	// Batch is an import; "" = all.
	Batch string
	// Retrying selects the orders that were attempted.
	Retrying bool
}

// errPageFull ends a walk.
var errPageFull = errors.New("the page is full")

// PendingOrders passes pending orders to visit, oldest first, from a sequence of the
// queue on. It ends after the given number of orders, or once it has looked at most
// intents; 0 = no bound. next is where to go on; 0 = at the end. Orders that are
// stored later than its call are not among them.
func PendingOrders(ctx context.Context, q *queue.Queue, f PendingFilter, from uint64, orders, most int, visit func(PendingOrder) error) (next uint64, err error) {
	intents := q.Intents()
	now, err := intents.State(ctx)
	if err != nil {
		return 0, err
	}
	deliveries, err := q.Census.Deliveries(ctx)
	if err != nil {
		return 0, err
	}
	passed, looked := 0, 0
	err = intents.Walk(ctx, max(from, 1), now.LastSeq, func(page []*settle.Message) error {
		list, err := pendingPage(ctx, q, f, page, deliveries.Last)
		if err != nil {
			return err
		}
		for _, p := range list {
			if orders > 0 && passed == orders {
				next = p.Seq
				return errPageFull
			}
			if err := visit(p); err != nil {
				return err
			}
			passed++
		}
		if looked += len(page); most > 0 && looked >= most {
			next = page[len(page)-1].Seq + 1
			return errPageFull
		}
		return nil
	})
	if errors.Is(err, errPageFull) {
		err = nil
		if next > now.LastSeq {
			next = 0
		}
	}
	return next, err
}

// pendingPage selects orders from a page of the queue.
func pendingPage(ctx context.Context, q *queue.Queue, f PendingFilter, page []*settle.Message, delivered uint64) (out []PendingOrder, err error) {
	intents := q.Intents()
	var numbers []string
	for _, m := range page {
		p := PendingOrder{Batch: m.Header.Get(settle.HeaderBatch), Source: m.Header.Get(settle.HeaderSource), IntentID: m.IntentID(),
			StoredAt: m.Time, Seq: m.Seq, State: StateQueued}
		token := intents.Token(m)
		if p.OrderNo, err = order.OrderNoFromToken(token); err != nil {
			p.OrderNo = token // whoever looks the order up finds it by this
		}
		if f.Batch != "" && p.Batch != f.Batch || f.Retrying && m.Seq > delivered {
			continue
		}
		if m.Seq <= delivered {
			p.State = StateTaken
		}
		out, numbers = append(out, p), append(numbers, p.OrderNo)
	}
	if len(out) == 0 {
		return nil, nil
	}
	words, err := q.Ledger.LastWords(ctx, numbers)
	if err != nil {
		return nil, err
	}
	kept := out[:0]
	for i, p := range out {
		r := words[i].Record
		if r.Settles(p.IntentID) {
			continue // its acknowledgement is under way
		}
		if r != nil && r.Outcome() == order.OutcomeNone && r.IntentID == p.IntentID {
			p.note(r)
		}
		if !f.Retrying || p.State == StateRetrying {
			kept = append(kept, p)
		}
	}
	return kept, nil
}

// note takes over what a note says.
func (p *PendingOrder) note(r *order.Record) {
	p.Attempts, p.LastAttemptAt, p.Unsure, p.Worker, p.NextAt = r.Attempts, r.LastAttemptAt, r.Unsure, r.Worker, r.NotBefore
	p.Verdict, p.Status, p.Reason, p.Error, p.Response = r.Verdict, r.Status, r.Reason, r.Error, r.Response
	if p.State = StateTaken; r.Attempts > 0 {
		p.State = StateRetrying
	}
}

// Answer says in a line what the last attempt ended with; "" if none is on record.
func (p PendingOrder) Answer() string {
	switch {
	case p.Attempts == 0:
		return ""
	case p.Error != "":
		return p.Error
	case p.Response != "":
		return p.Response
	default:
		return p.Reason
	}
}
