// Package lookup shows everything that the streams hold about one order.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"orderpost/internal/cli"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet"
	"orderpost/internal/journal"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/status"
)

// Finding is what the streams hold about one order_no. Every field may be nil.
type Finding struct {
	OrderNo string        `json:"order_no"`
	Result  *order.Record `json:"result"`
	seq     uint64        // of the result
	// Letters are its dead letters, the one that was filed last first.
	Letters []Letter `json:"dead_letters,omitempty"`
	// Pending says that an intent is in the queue.
	Pending bool `json:"pending"`
	// NothingSent is a sentence if the order has no outcome and no worker sends.
	NothingSent string `json:"nothing_sent,omitempty"`
	// Waiting are the order's intents in the waiting room. NoWaiting is why they are
	// not known.
	Waiting   []Waiting `json:"waiting,omitempty"`
	NoWaiting string    `json:"no_waiting,omitempty"`
	// Journal are the acts of people on the order, on its import, and on groups of
	// dead letters that it was in, newest first. NoJournal is why they are not known.
	Journal   []journal.Item `json:"journal,omitempty"`
	NoJournal string         `json:"no_journal,omitempty"`
}

// Letter is a dead letter with its order.
type Letter struct {
	*settle.Letter
	// Body is the order, byte for byte.
	Body string `json:"body"`
}

// Find reads the streams and the journal. An unreadable journal hides
// nothing else.
func Find(ctx context.Context, q *queue.Queue, orderNo string) (*Finding, error) {
	f := &Finding{OrderNo: orderNo}
	if err := f.findWaiting(ctx, q); err != nil { // first: what leaves the waiting room is in the queue then
		return nil, err
	}
	found, err := status.Find(ctx, q, orderNo)
	if err != nil {
		return nil, err
	}
	f.Result, f.seq, f.Pending = found.Record, found.Seq, found.Pending
	for _, l := range found.Letters {
		f.Letters = append(f.Letters, Letter{l, string(l.Body)})
	}
	if f.Pending && found.Record.Outcome() == order.OutcomeNone || len(f.Waiting) > 0 {
		f.NothingSent = fleet.New(q).NothingSent(ctx)
	}
	if f.Journal, err = deadletter.OfOrder(ctx, q, orderNo, f.batch(), &found); err != nil {
		if ctx.Err() != nil || errors.Is(err, queue.ErrUnreachable) {
			return nil, err
		}
		f.NoJournal = err.Error()
	}
	return f, nil
}

// batch returns the import that the order belongs to; "" = none is known.
func (f *Finding) batch() string {
	switch {
	case f.Result != nil:
		return f.Result.Batch
	case len(f.Waiting) > 0:
		return f.Waiting[0].Batch
	}
	return ""
}

// Show finds an order and prints it. For an unknown order_no its error has
// ExitPartial.
func Show(ctx context.Context, q *queue.Queue, orderNo string, asJSON bool, out io.Writer) error {
	f, err := Find(ctx, q, orderNo)
	if err != nil {
		return err
	}
	if !asJSON {
		return errors.Join(f.print(out), f.known())
	}
	if err := cli.PrintReport(out, f); err != nil {
		return err
	}
	return f.known()
}

// known returns an error with ExitPartial if the finding is empty.
func (f *Finding) known() error {
	switch {
	case f.Result != nil || f.Pending || len(f.Waiting) > 0:
		return nil
	case f.NoWaiting != "":
		return &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf("order_no %s is not in the queue and has no outcome; whether it waits is not known: %s", f.OrderNo, f.NoWaiting)}
	default:
		return &cli.ExitError{Code: cli.ExitPartial, Err: errors.New("nothing is known about order_no " + f.OrderNo)}
	}
}
