package deadletter

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

type resolveCommand struct {
	act
	accepted, rejected bool
	seen               string
}

func newResolveCommand(s *surroundings) *cobra.Command {
	c := &resolveCommand{act: act{selection: selection{surroundings: s}, would: "settled", asks: true}}
	cmd := &cobra.Command{
		Use:   "resolve [ORDER_NO] --accepted|--rejected --note TEXT",
		Short: "Settle unknown orders with what you found out",
		Long: "resolve records, with your name and the time, whether an unknown order exists at the API. It removes\n" +
			"the dead letter: export it first if you may need the order. If the letter is about a correction with\n" +
			"another body and the order exists, the letter stays as a conflict. resolve refuses while an intent\n" +
			"for the order_no is in the queue, and if the outcome is not unknown. You can correct your decision.\n" +
			"If the API itself confirms an acceptance later, that counts instead.\n\n" +
			"Instead of an order number give a filter, or --all: resolve then settles the unknown orders of all\n" +
			"dead letters that match, and asks first; without a terminal it needs --yes.\n\n" +
			"Exit code 3: nothing was changed, or some letters stayed.",
		Example: "  orderpost deadletter resolve A-100 --accepted --note 'seen in the back office, ticket 17'\n" +
			"  orderpost deadletter resolve --outcome unknown --batch march --accepted --note 'the API lists them' --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	c.register(cmd, "result", "resolve")
	cmd.Args = cli.Named(cobra.MaximumNArgs(1)) // an order number is no group here
	f := cmd.Flags()
	f.BoolVar(&c.accepted, "accepted", false, "the order exists at the API")
	f.BoolVar(&c.rejected, "rejected", false, "the order does not exist at the API")
	f.StringVar(&c.seen, "seen", "", "write id of the result that you looked into, as orderpost order names it: change nothing if the order was handled again since (default any)")
	return cmd
}

func (c *resolveCommand) run(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.group(cmd)
	}
	err := c.wrong()
	if !c.Empty() || c.all || c.dryRun {
		err = errors.Join(errors.New("an order number takes neither a filter nor --all nor --dry-run"), err)
	}
	if err != nil {
		return usage(err)
	}
	q, done, err := c.surroundings.open(cmd.Context())
	defer done()
	if err != nil {
		return err
	}
	as := c.outcome()
	orderNo := args[0]
	about := journal.About{Kind: journal.Resolve, OrderNo: orderNo, Details: map[string]string{"as": as.String()}}
	if c.seen != "" {
		about.Details["seen"] = c.seen
	}
	return c.person.On(cmd).Act(cmd.Context(), q, about, nil, func(ctx context.Context) (map[string]int, error) {
		if err := c.resolve(ctx, q, orderNo, as); err != nil {
			return nil, err
		}
		return map[string]int{"resolved": 1}, nil
	})
}

// wrong names the mistakes in the flags that are resolve's own.
func (c *resolveCommand) wrong() (err error) {
	if c.accepted == c.rejected {
		err = errors.New("give one of --accepted and --rejected")
	}
	if c.person.Note == "" && !c.dryRun {
		err = errors.Join(err, errors.New("--note: say how you know, for the record"))
	}
	return err
}

// outcome is what the person found out.
func (c *resolveCommand) outcome() order.Outcome {
	if c.accepted {
		return order.OutcomeAccepted
	}
	return order.OutcomeRejected
}

func (c *resolveCommand) resolve(ctx context.Context, q *queue.Queue, orderNo string, as order.Outcome) error {
	rec, err := q.Operator.Resolve(ctx, orderNo, c.seen, as, c.person.Settle())
	for _, refusal := range []error{settle.ErrPending, settle.ErrNoResult, settle.ErrNotInDoubt} {
		if errors.Is(err, refusal) {
			return partial("nothing was changed: %w", err)
		}
	}
	if errors.Is(err, settle.ErrReplaced) {
		return partial("not resolved: %w", err)
	}
	if err != nil {
		return err
	}
	if c.json {
		return cli.PrintJSON(c.stdout, rec)
	}
	say(c.stdout, "order %s is %s, by %s at %s", orderNo, rec.Word, rec.By, stamp(rec.SettledAt))
	return nil
}

// group settles the orders of all letters that the filter selects, up to the last one
// that is stored now.
func (c *resolveCommand) group(cmd *cobra.Command) error {
	err := c.check()
	if c.seen != "" {
		err = errors.Join(err, errors.New("--seen: is about one order; name it"))
	}
	ctx := cmd.Context()
	q, group, done, err := c.open(ctx, err, c.wrong())
	defer done()
	if err != nil {
		return err
	}
	as := c.outcome()
	deed := deadletter.Resolve(q, as, c.person.Settle())
	expected, err := deadletter.Preview(ctx, q, group, deed, deadletter.Options{})
	if err != nil {
		return err
	}
	n := expected.Fates[deadletter.Resolved]
	if c.dryRun || n == 0 {
		return stayed(deed, expected, c.report(expected, true))
	}
	if !c.yes {
		c.summary(expected, resolveLines("would be "+as.String()))
	}
	if !c.confirmed("Record that %d %s %s at the API?", n, lookup.Plural(n, "order", "orders"), exists(as, n)) {
		return partial("nothing was changed")
	}
	about := journal.About{Details: map[string]string{"as": as.String()}, Expected: expected.Counts()}
	return c.do(cmd, q, group, deed, deadletter.Options{}, about, func(_ context.Context, t deadletter.Tally) error {
		return c.report(t, false)
	})
}

func exists(as order.Outcome, n int) string {
	if as == order.OutcomeAccepted {
		return lookup.Plural(n, "exists", "exist")
	}
	return lookup.Plural(n, "does not exist", "do not exist")
}

// resolvedGroup is the JSON output of resolve for a group.
type resolvedGroup struct {
	DryRun bool           `json:"dry_run"`
	As     order.Outcome  `json:"as"`
	Orders map[string]int `json:"orders"`
	Errors []string       `json:"errors"`
}

func (c *resolveCommand) report(t deadletter.Tally, dry bool) error {
	done := c.outcome().String()
	if dry {
		done = "would be " + done
	}
	lines := resolveLines(done)
	if !c.json {
		c.summary(t, lines)
		return nil
	}
	out := resolvedGroup{DryRun: dry, As: c.outcome(), Orders: make(map[string]int), Errors: append([]string{}, t.Errors...)}
	for _, l := range lines {
		out.Orders[string(l.fate)] = t.Fates[l.fate]
	}
	return cli.PrintJSON(c.stdout, out)
}

// resolveLines are the lines of a summary; done is that of the orders that are settled.
func resolveLines(done string) []line {
	return []line{{deadletter.Resolved, done}, {deadletter.Gone, "gone or replaced meanwhile"}, {deadletter.Certain, "stay: the outcome is not in doubt"},
		{deadletter.Pending, "stay: an intent for the order_no is in the queue"}, unconfirmed}
}
