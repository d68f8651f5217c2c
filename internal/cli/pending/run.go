// Package pending is the command that lists the orders without an outcome.
package pending

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/queue"
	"orderpost/internal/status"
)

// rows is the default number of orders in the text output.
const rows = 50

type command struct {
	environ        map[string]string
	stdout, stderr io.Writer
	filter         status.PendingFilter
	limit          int
	json           bool
}

// NewCommand returns the command.
func NewCommand(environ map[string]string, stdout, stderr io.Writer) *cobra.Command {
	c := &command{environ: environ, stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use:   "pending",
		Short: "List the orders in the queue that have no outcome yet",
		Long: "pending lists the orders in the queue, oldest first: how many attempts are on record, what the last one\n" +
			"ended with, and when the next one is due. An order is queued (no worker was given it), taken (it is in\n" +
			"hand, or on its way back), or retrying. What waits in the waiting room is not among them: see fleet.",
		Example: "  orderpost pending --retrying\n  orderpost pending --batch march --json",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&c.filter.Batch, "batch", "", "only the orders of this import")
	cli.NotEmpty(cmd, "batch")
	f.BoolVar(&c.filter.Retrying, "retrying", false, "only the orders that were attempted")
	f.IntVar(&c.limit, "limit", rows, "orders shown at most; 0 = all (with --json all is the default)")
	_ = cmd.RegisterFlagCompletionFunc("batch", broker.CompleteBatch(environ)) // the flag exists
	cli.JSONFlag(cmd, &c.json, "pending")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if c.json && !cmd.Flags().Changed("limit") {
			c.limit = 0
		}
	}
	return broker.Patient(cmd, environ, broker.AgainOutput)
}

func (c *command) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	var wrong error
	if c.limit < 0 {
		wrong = errors.New("--limit: is below 0")
	}
	q, done, err := broker.Connect(ctx, c.environ, broker.Options{Name: "pending", StartStopped: true, Stderr: c.stderr}, wrong)
	if err != nil {
		return err
	}
	defer done()
	if c.json {
		out := json.NewEncoder(cli.ForTerminal(c.stdout))
		_, err := status.PendingOrders(ctx, q, c.filter, 0, c.limit, 0, func(p status.PendingOrder) error { return out.Encode(p) })
		return err
	}
	return c.table(ctx, q)
}

// sayWhatWaits says how many orders of the import are not in the queue yet.
func (c *command) sayWhatWaits(ctx context.Context, q *queue.Queue) error {
	if c.filter.Retrying {
		return nil
	}
	n, err := imports.WaitingOf(ctx, q, c.filter.Batch)
	if err == nil && n > 0 {
		c.say("%d in the waiting room (orderpost fleet shows what feeds the queue from there)", n)
	}
	return err
}

// table prints the orders as text.
func (c *command) table(ctx context.Context, q *queue.Queue) error {
	if why := fleet.New(q).NothingSent(ctx); why != "" {
		c.say("%s", cli.Printable(cli.Sentence(why)))
	}
	n, now := 0, time.Now()
	next, err := status.PendingOrders(ctx, q, c.filter, 0, c.limit, 0, func(p status.PendingOrder) error {
		if n++; n == 1 {
			c.say(line, "ORDER_NO", "TRIES", "SINCE", "NEXT", "LAST ANSWER")
		}
		c.row(p, now)
		return nil
	})
	switch {
	case err != nil:
		return err
	case n == 0:
		c.say("No order matches.")
		return c.sayWhatWaits(ctx, q)
	case next > 0:
		counts, err := q.Census.Count(ctx)
		if err != nil {
			return err
		}
		c.say("… and more; %d orders are in the queue (--limit 0 shows all, --batch and --retrying narrow it)", counts.Pending)
	}
	return nil
}

const line = "%-24s  %5v  %5s  %7s  %s"

// row prints an order in a line of at most 80 columns. --json has all of it.
func (c *command) row(p status.PendingOrder, now time.Time) {
	next, last := "-", p.State
	if p.State == status.StateRetrying {
		if next = "now"; p.NextAt.After(now) {
			next = "in " + span(p.NextAt.Sub(now))
		}
		if last = "no answer"; p.Status > 0 {
			last = "status " + strconv.Itoa(p.Status)
		}
		if answer := p.Answer(); answer != "" {
			last += ": " + answer
		}
	}
	c.say("%s", lookup.Clip(fmt.Sprintf(line, lookup.Clip(p.OrderNo, 24), p.Attempts, span(now.Sub(p.StoredAt)), next, last), 80))
}

// span writes a time in one unit, such as 12s, 5m or 3h.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	default:
		return strconv.Itoa(int(d.Hours()/24)) + "d"
	}
}

// say prints a line. It ignores errors: Guard reports them.
func (c *command) say(format string, args ...any) { _, _ = fmt.Fprintf(c.stdout, format+"\n", args...) }
