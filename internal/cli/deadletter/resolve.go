package deadletter

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/journal"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

type resolveCommand struct {
	*surroundings
	filter
	all, yes, dryRun         bool
	accepted, rejected, json bool
	seen                     string
	person                   broker.Person
}

func newResolveCommand(s *surroundings) *cobra.Command {
	c := &resolveCommand{surroundings: s}
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
		Args: cli.Named(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args) },
	}
	cmd.ValidArgsFunction = broker.CompleteLetter(s.environ)
	f := cmd.Flags()
	c.register(cmd, s.environ)
	f.BoolVar(&c.all, "all", false, "every dead letter")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
	f.BoolVar(&c.dryRun, "dry-run", false, "change nothing, say what would be settled")
	cli.JSONFlag(cmd, &c.json, "result", "resolve")
	f.BoolVar(&c.accepted, "accepted", false, "the order exists at the API")
	f.BoolVar(&c.rejected, "rejected", false, "the order does not exist at the API")
	f.StringVar(&c.seen, "seen", "", "write id of the result that you looked into, as orderpost order names it: change nothing if the order was handled again since (default any)")
	c.person.Register(cmd, s.environ)
	return cmd
}

func (c *resolveCommand) run(cmd *cobra.Command, args []string) error {
	var err error
	switch one := len(args) == 1; {
	case !one:
		err = c.checkGroup()
	case !c.Empty() || c.all || c.dryRun:
		err = errors.New("an order number takes neither a filter nor --all nor --dry-run")
	}
	if c.accepted == c.rejected {
		err = errors.Join(err, errors.New("give one of --accepted and --rejected"))
	}
	if c.person.Note == "" && !c.dryRun {
		err = errors.Join(err, errors.New("--note: say how you know, for the record"))
	}
	if err != nil {
		return usage(err)
	}
	as := order.OutcomeRejected
	if c.accepted {
		as = order.OutcomeAccepted
	}
	q, done, err := c.open(cmd.Context())
	if err != nil {
		return err
	}
	defer done()
	if len(args) == 0 {
		return c.group(cmd, q, as)
	}
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
