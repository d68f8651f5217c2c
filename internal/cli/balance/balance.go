// Package balance compares what orderpost recorded with what the sandbox created. The
// demo and the chaos run end with it.
package balance

import (
	"context"
	"fmt"

	"orderpost/internal/audit"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
)

// maxProblems is the largest number of listed problems. Balanced considers all.
const maxProblems = 20

// Books compares three books: what was enqueued, the results, and the sandbox's ledger.
type Books struct {
	// Outcomes counts the results by outcome.
	Outcomes map[string]int `json:"outcomes"`
	// DeadLetters is the number of dead letters.
	DeadLetters uint64 `json:"dead_letters"`
	// CreatedOnce and CreatedTwice count orders in the ledger.
	CreatedOnce  int `json:"created_once"`
	CreatedTwice int `json:"created_twice"`
	// Missing counts orders that are recorded as accepted and do not exist.
	Missing int `json:"missing"`
	// Unrecorded counts orders that exist and are recorded as not created, or not at all.
	Unrecorded int `json:"unrecorded"`

	Balanced bool     `json:"balanced"`
	Problems []string `json:"problems,omitempty"`
}

// Problem adds a problem.
func (b *Books) Problem(format string, args ...any) {
	b.Balanced = false
	if len(b.Problems) < maxProblems {
		b.Problems = append(b.Problems, fmt.Sprintf(format, args...))
	}
}

// AnyNumber says that the caller checks which orders must have a result.
const AnyNumber = -1

// Balance compares the results of a quiet queue with the ledger. orders is the number
// of different orders that were enqueued. Balance calls each for every result, unless
// each is nil.
func Balance(ctx context.Context, q *queue.Queue, api *sandbox.Server, orders int, each func(*order.Record)) (*Books, error) {
	b := &Books{Outcomes: make(map[string]int), Balanced: true}
	recorded := make(map[string]bool, orders)
	err := queue.EachRecord(ctx, q, func(r *order.Record) error {
		b.Outcomes[r.Word]++
		recorded[r.OrderNo] = true
		b.compare(r, api.Created(r.OrderNo))
		if each != nil {
			each(r)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if orders != AnyNumber && len(recorded) != orders {
		b.Problem("%d orders were enqueued, %d have a result", orders, len(recorded))
	}
	b.compareLedger(api, recorded)
	return b, b.audit(ctx, q)
}

// compare compares one result with the ledger.
func (b *Books) compare(r *order.Record, created int) {
	switch r.Outcome() {
	case order.OutcomeNone:
		b.Problem("%s: not settled (%s)", r.OrderNo, r.Note)
	case order.OutcomeAccepted:
		if created == 0 {
			b.Missing++
			b.Problem("%s: recorded as accepted, but never created", r.OrderNo)
		}
	case order.OutcomeUnknown: // the order may or may not exist
	default:
		if created > 0 {
			b.Unrecorded++
			b.Problem("%s: created, but recorded as %s", r.OrderNo, r.Word)
		}
	}
}

// compareLedger finds orders that were created twice or not recorded.
func (b *Books) compareLedger(api *sandbox.Server, recorded map[string]bool) {
	for orderNo, e := range api.Each {
		switch {
		case e.Created == 1:
			b.CreatedOnce++
		case e.Created > 1:
			b.CreatedTwice++
			b.Problem("%s: created %d times", orderNo, e.Created)
		}
		if e.Created > 0 && !recorded[orderNo] {
			b.Unrecorded++
			b.Problem("%s: created, but there is no result", orderNo)
		}
	}
}

// audit checks whether the streams themselves balance.
func (b *Books) audit(ctx context.Context, q *queue.Queue) error {
	audit, err := audit.Audit(ctx, q)
	if err != nil {
		return err
	}
	b.DeadLetters = audit.Letters
	if !audit.Balanced() {
		b.Problem("audit: %d intents were stored, %d are settled and %d pending; %d offenders after %d looks",
			audit.Intents, audit.Settled, audit.Pending, audit.OffenderCount, audit.Looks)
	}
	for _, o := range audit.Offenders {
		b.Problem("audit: %s: %s", o.OrderNo, o.Problem)
	}
	return nil
}
