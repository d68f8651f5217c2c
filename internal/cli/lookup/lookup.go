// Package lookup shows everything that the streams hold about one order.
package lookup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/deadletter"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
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

// NewCommand returns the command order. Under another name it is deadletter show.
func NewCommand(environ map[string]string, stdout, stderr io.Writer) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "order ORDER_NO",
		Short: "Show all that is known about one order",
		Long: "order shows the result, the dead letter with its attempts, what waits in the waiting room, and\n" +
			"what to do now. If no worker runs, it opens the store in the data folder.\n\nExit code 3: nothing is known about it.",
		Example: "  orderpost order A-100\n  orderpost order A-100 --json",
		Args:    cli.Named(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			q, done, err := broker.Connect(cmd.Context(), environ, broker.Options{Name: cmd.Name(), StartStopped: true, Stderr: stderr})
			if err != nil {
				return err
			}
			defer done()
			return Show(cmd.Context(), q, args[0], asJSON, stdout)
		},
	}
	cmd.ValidArgsFunction = broker.CompleteLetter(environ)
	cli.JSONFlag(cmd, &asJSON, "order")
	return broker.Patient(cmd, environ, broker.AgainLook)
}

// steps says what to do next.
func (f *Finding) steps() []status.Step {
	if !f.Pending && (f.Result == nil || f.Result.ClaimsNotCreated() && len(f.Waiting) > 0) {
		switch {
		case len(f.Waiting) > 0 && f.Waiting[0].Held != "":
			name := f.Waiting[0].Batch
			if name == "" {
				name = settle.NoImport
			}
			return []status.Step{{Text: "It waits until its import goes on:", Command: "orderpost enqueue continue " + status.ShellWord(name)}}
		case len(f.Waiting) > 0 && f.NothingSent != "":
			return []status.Step{{Text: "Nothing: it waits, and " + f.NothingSent + "."}}
		case len(f.Waiting) > 0:
			return []status.Step{{Text: "Nothing: it waits, and a worker moves it into the queue."}}
		case f.NoWaiting != "":
			return []status.Step{{Text: "Look again when fewer orders wait: it may be one of them. Enqueueing it again is safe, with the same id or the same file."}}
		}
	}
	found := status.Found{Entry: settle.Entry{Record: f.Result, Seq: f.seq}, Pending: f.Pending, NothingSent: f.NothingSent}
	for _, l := range f.Letters {
		found.Letters = append(found.Letters, l.Letter)
	}
	return found.Advice(f.OrderNo)
}

// Waiting is an intent in the waiting room.
type Waiting struct {
	IntentID string `json:"intent_id"`
	Batch    string `json:"batch,omitempty"`
	// NotBefore is the time that it waits for, as its producer wrote it.
	NotBefore string    `json:"not_before,omitempty"`
	Stored    time.Time `json:"stored"`
	// Held says who keeps its import where it is, or that it needs an approval; "" = neither.
	Held string `json:"held,omitempty"`
}

// mostWaiting is how many waiting intents a lookup reads. Subjects of the waiting room
// do not name orders, so it reads all of them. Tests lower it.
var mostWaiting uint64 = 200_000

// findWaiting reads which intents of the order wait. What cannot be read there hides
// nothing else.
func (f *Finding) findWaiting(ctx context.Context, q *queue.Queue) error {
	n, err := q.Waiting.Total(ctx)
	holds := &imports.Feeding{}
	if err == nil && n > 0 {
		holds, err = imports.ReadFeeding(ctx, q, 0)
	}
	switch {
	case err == nil && n > mostWaiting:
		err = fmt.Errorf("%d intents wait, too many to look through", n)
	case err == nil:
		err = imports.WaitingOfOrder(ctx, q, f.OrderNo)(func(page []*settle.Message) error {
			for _, m := range page {
				f.Waiting = append(f.Waiting, Waiting{IntentID: m.IntentID(),
					Batch: m.Header.Get(settle.HeaderBatch), NotBefore: m.Header.Get(settle.HeaderNotBefore), Stored: m.Time,
					Held: holds.HoldOf(q.Waiting.Import(m)).By()})
			}
			return nil
		})
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, queue.ErrUnreachable)) {
		return err
	}
	if err != nil {
		f.NoWaiting = err.Error()
	}
	return nil
}

// waiting prints the intents that wait.
func (p *page) waiting(f *Finding) {
	for _, w := range f.Waiting {
		text := "an intent waits for its turn"
		if w.NotBefore != "" {
			text = "an intent waits for its time, " + Plain(w.NotBefore)
		}
		if w.Batch != "" {
			text += " (batch " + Plain(w.Batch) + ")"
		}
		if w.Held != "" {
			text += ", held by " + Plain(w.Held)
		}
		p.row("waiting room", text)
	}
	if f.NoWaiting != "" {
		p.row("waiting room", "not known: "+f.NoWaiting)
	}
}
