// Package lookup shows all that is known about one order.
package lookup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/program"
	"orderpost/internal/queue"
)

// Finding is what the streams hold about one order_no. All of it may be nil.
type Finding struct {
	OrderNo string        `json:"order_no"`
	Result  *order.Record `json:"result"`
	Letter  *queue.Letter `json:"dead_letter"`
	// Body is the dead letter's order as it came.
	Body string `json:"body,omitempty"`
	// Pending: an intent is in the queue.
	Pending bool `json:"pending"`
}

// Find reads the three streams.
func Find(ctx context.Context, q *queue.Queue, orderNo string) (*Finding, error) {
	f := &Finding{OrderNo: orderNo}
	entry, err := q.Lookup(ctx, orderNo)
	if err != nil {
		return nil, err
	}
	f.Result = entry.Record
	if f.Letter, err = q.Letter(ctx, orderNo); err != nil {
		return nil, err
	}
	if f.Letter != nil {
		f.Body = string(f.Letter.Body)
	}
	f.Pending, err = q.IsPending(ctx, orderNo)
	return f, err
}

// Show finds an order and prints it. An order that nobody knows ends with exit
// code 3.
func Show(ctx context.Context, q *queue.Queue, orderNo string, asJSON bool, out io.Writer) error {
	f, err := Find(ctx, q, orderNo)
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(f); err != nil {
			return err
		}
	} else {
		f.print(out)
	}
	if f.Result == nil && f.Letter == nil && !f.Pending {
		return &program.ExitError{Code: program.ExitPartial, Err: errors.New("nothing is known about order_no " + orderNo)}
	}
	return nil
}

func (f *Finding) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	defer func() { _ = w.Flush() }()
	row := func(name, format string, args ...any) {
		if text := fmt.Sprintf(format, args...); text != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", name, text)
		}
	}
	row("order_no", "%s", f.OrderNo)
	if f.Pending {
		row("queue", "an intent is waiting or being worked on")
	}
	if r := f.Result; r != nil {
		f.printResult(row, r)
	}
	if l := f.Letter; l != nil {
		f.printLetter(row, l)
	}
	row("what now", "%s", f.advice())
}

func (f *Finding) printResult(row func(name, format string, args ...any), r *order.Record) {
	if o := r.Outcome(); o != order.OutcomeNone {
		row("outcome", "%s: %s", o, o.Meaning())
		row("at the API", "%s", map[string]string{"yes": "created", "no": "not created", "unknown": "nobody knows"}[o.Created()])
	} else {
		row("outcome", "%s (%s)", r.Word, r.Note)
	}
	row("reason", "%s", r.Reason)
	row("error", "%s", r.Error)
	if r.Verdict != order.VerdictNone {
		row("last verdict", "%s, status %d", r.Verdict, r.Status)
	}
	row("response", "%s", r.Response)
	row("attempts", "%d", r.Attempts)
	row("enqueued", "%s", at(r.EnqueuedAt))
	row("first attempt", "%s", at(r.FirstAttemptAt))
	row("last attempt", "%s", at(r.LastAttemptAt))
	row("settled", "%s", at(r.SettledAt))
	row("not before", "%s", at(r.NotBefore))
	row("batch", "%s", r.Batch)
	row("source", "%s", r.Source)
	row("worker", "%s", r.Worker)
	row("settled by", "%s", r.By)
}

func (f *Finding) printLetter(row func(name, format string, args ...any), l *queue.Letter) {
	row("dead letter", "filed %s, %s", at(l.FiledAt), l.Reason)
	for _, a := range l.Trail {
		row("  attempt", "%s  %s  status %d  %s  %d ms", at(a.At), a.Verdict, a.Status, a.Reason, a.DurationMS)
	}
	for _, e := range l.Earlier {
		row("  earlier", "%s  %s  %s", at(e.At), e.Outcome, e.Reason)
	}
	row("body", "%s", f.Body)
}

func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000Z")
}

// advice says what a person can do now.
func (f *Finding) advice() string {
	if f.Result == nil {
		if f.Pending {
			return "nothing: it waits for a worker"
		}
		return "nothing is known here; it was never enqueued, or its result has expired"
	}
	switch f.Result.Outcome() {
	case order.OutcomeAccepted:
		return "nothing: it is done"
	case order.OutcomeNone:
		return "nothing: it is being worked on, or waits for its next attempt"
	case order.OutcomeUnknown:
		return "ask the API's operator whether the order exists; do not enqueue it under another order_no before you know"
	case order.OutcomeCancelled:
		return "nothing; enqueue it again if it is wanted after all"
	default:
		return "correct the order and enqueue it again under the same order_no"
	}
}
