package deadletter

import (
	"context"

	"github.com/spf13/cobra"

	"orderpost/internal/audit/journal"
	"orderpost/internal/cli"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/deadletter"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

type dropCommand struct{ act }

func newDropCommand(s *surroundings) *cobra.Command {
	c := &dropCommand{act{selection: selection{surroundings: s}, would: "dropped", asks: true}}
	cmd := &cobra.Command{
		Use:   "drop [ORDER_NO]",
		Short: "Forget dead letters; their results stay",
		Long: "drop removes dead letters that nobody needs any more, with the orders in them. The results stay\n" +
			"and say who dropped the letter. An unknown order stays protected from being sent again.\n" +
			"drop asks first; without a terminal it needs --yes. Give an order number, a filter, or --all.\n\n" +
			"Exit code 3: some letters stayed, because an intent for their order_no is in the queue.",
		Example: "  orderpost deadletter drop --outcome expired --until 30d --dry-run\n  orderpost deadletter drop --outcome expired --until 30d",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.register(cmd, "drop")
	return cmd
}

func (c *dropCommand) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	q, group, done, err := c.open(ctx, c.check())
	defer done()
	if err != nil {
		return err
	}
	deed, counts := deadletter.Drop(q, c.person.Settle()), newReasons()
	if c.dryRun {
		return c.preview(ctx, q, group, deed)
	}
	err = group.Walk(ctx, q, func(page []*settle.Letter, _ int) error {
		counts.add(page...)
		return nil
	})
	if err != nil {
		return err
	}
	counts.print(c.stderr)
	if n := counts.total; n == 0 || !c.confirmed("Forget %d dead %s and the orders in them?", n, lookup.Plural(n, "letter", "letters")) {
		if c.json {
			return c.tell(deadletter.Tally{}, "", "")
		}
		return nil
	}
	about := journal.About{Expected: map[string]int{"matching": counts.total}}
	return c.do(cmd, q, group, deed, deadletter.Options{}, about, func(_ context.Context, t deadletter.Tally) error {
		return c.tell(t, "dropped", "stay")
	})
}

// preview prints what drop would do.
func (c *dropCommand) preview(ctx context.Context, q *queue.Queue, g deadletter.Group, d deadletter.Deed) error {
	counts := newReasons()
	tally, err := deadletter.Preview(ctx, q, g, d, deadletter.Options{Did: func(l *settle.Letter) { counts.add(l) }})
	if err != nil {
		return err
	}
	if !c.json {
		counts.print(c.stdout)
	}
	err = c.tell(tally, "would be dropped", "would stay")
	if n := tally.Stayed(d); err == nil && n > 0 {
		err = partial("%d dead letters would stay", n)
	}
	return err
}

// droppedLetters is the JSON output of drop.
type droppedLetters struct {
	DryRun  bool `json:"dry_run"`
	Dropped int  `json:"dropped"`
	Stayed  int  `json:"stayed"` // an intent for the order_no is in the queue
}

// tell prints how many letters are gone and how many stay.
func (c *dropCommand) tell(t deadletter.Tally, gone, stay string) error {
	c.failures(t)
	dropped, stayed := t.Fates[deadletter.Dropped], t.Fates[deadletter.Pending]
	if c.json {
		return cli.PrintJSON(c.stdout, droppedLetters{c.dryRun, dropped, stayed})
	}
	say(c.stdout, "%9d %s", dropped, gone)
	if stayed > 0 {
		say(c.stdout, "%9d %s: an intent for the order_no is in the queue", stayed, stay)
	}
	return nil
}
