// Package lookup shows everything that the streams hold about one order.
package lookup

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"orderpost/internal/acts"
	"orderpost/internal/books"
	"orderpost/internal/journal"
	"orderpost/internal/order"
	"orderpost/internal/program"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Finding is what the streams hold about one order_no. Every field may be nil.
type Finding struct {
	OrderNo string         `json:"order_no"`
	Result  *order.Record  `json:"result"`
	Letter  *settle.Letter `json:"dead_letter"`
	// Body is the order of the dead letter, byte for byte.
	Body string `json:"body,omitempty"`
	// Pending says that an intent is in the queue.
	Pending bool `json:"pending"`
	// Journal are the acts of people on the order, on its import, and on groups of
	// dead letters that it was in, newest first. NoJournal is why they are not known.
	Journal   []journal.Item `json:"journal,omitempty"`
	NoJournal string         `json:"no_journal,omitempty"`
}

// Find reads the three streams and the journal. An unreadable journal hides
// nothing else.
func Find(ctx context.Context, q *queue.Queue, orderNo string) (*Finding, error) {
	found, err := books.Find(ctx, q, orderNo)
	if err != nil {
		return nil, err
	}
	f := &Finding{OrderNo: orderNo, Result: found.Record, Letter: found.Letter, Pending: found.Pending}
	if f.Letter != nil {
		f.Body = string(f.Letter.Body)
	}
	if f.Journal, err = acts.OfOrder(ctx, q, orderNo, f.batch(), &found); err != nil {
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
	case f.Letter != nil && f.Letter.Batch != "":
		return f.Letter.Batch
	case f.Result != nil:
		return f.Result.Batch
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
		return errors.Join(f.print(ctx, out), f.known())
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(f); err != nil {
		return err
	}
	return f.known()
}

// known returns an error with ExitPartial if the finding is empty.
func (f *Finding) known() error {
	if f.Result == nil && f.Letter == nil && !f.Pending {
		return &program.ExitError{Code: program.ExitPartial, Err: errors.New("nothing is known about order_no " + f.OrderNo)}
	}
	return nil
}
