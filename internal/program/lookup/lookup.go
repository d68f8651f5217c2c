// Package lookup shows all that is known about one order.
package lookup

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"orderpost/internal/books"
	"orderpost/internal/order"
	"orderpost/internal/program"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Finding is what the streams hold about one order_no. All of it may be nil.
type Finding struct {
	OrderNo string         `json:"order_no"`
	Result  *order.Record  `json:"result"`
	Letter  *settle.Letter `json:"dead_letter"`
	// Body is the dead letter's order as it came.
	Body string `json:"body,omitempty"`
	// Pending: an intent is in the queue.
	Pending bool `json:"pending"`
}

// Find reads the three streams.
func Find(ctx context.Context, q *queue.Queue, orderNo string) (*Finding, error) {
	found, err := books.Find(ctx, q, orderNo)
	if err != nil {
		return nil, err
	}
	f := &Finding{OrderNo: orderNo, Result: found.Record, Letter: found.Letter, Pending: found.Pending}
	if f.Letter != nil {
		f.Body = string(f.Letter.Body)
	}
	return f, nil
}

// Show finds an order and prints it. An order that nobody knows ends with exit
// code 3.
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

// known gives an order that nobody knows its exit code.
func (f *Finding) known() error {
	if f.Result == nil && f.Letter == nil && !f.Pending {
		return &program.ExitError{Code: program.ExitPartial, Err: errors.New("nothing is known about order_no " + f.OrderNo)}
	}
	return nil
}
