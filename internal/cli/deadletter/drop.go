package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/deadletter"
	"orderpost/internal/journal"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

type dropCommand struct {
	*surroundings
	filter
	all, yes, dryRun, json bool
	person                 broker.Person
}

func newDropCommand(s *surroundings) *cobra.Command {
	c := &dropCommand{surroundings: s}
	cmd := &cobra.Command{
		Use:   "drop [ORDER_NO]",
		Short: "Forget dead letters; their results stay",
		Long: "drop removes dead letters that nobody needs any more, with the orders in them. The results stay\n" +
			"and say who dropped the letter. An unknown order stays protected from being sent again.\n" +
			"drop asks first; without a terminal it needs --yes. Give an order number, a filter, or --all.\n\n" +
			"Exit code 3: some letters stayed, because an intent for their order_no is in the queue.",
		Example: "  orderpost deadletter drop --outcome expired --until 30d --dry-run\n  orderpost deadletter drop --outcome expired --until 30d",
		Args:    c.one,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	cmd.ValidArgsFunction = broker.CompleteLetter(s.environ)
	f := cmd.Flags()
	c.register(cmd, s.environ)
	f.BoolVar(&c.all, "all", false, "every dead letter")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
	f.BoolVar(&c.dryRun, "dry-run", false, "change nothing, say what would be dropped")
	cli.JSONFlag(cmd, &c.json, "drop")
	c.person.Register(cmd, s.environ)
	return cmd
}

func (c *dropCommand) run(cmd *cobra.Command) error {
	ctx, err := cmd.Context(), c.compile(time.Now())
	if c.Empty() != c.all {
		err = errors.Join(err, errors.New("give an order number, a filter, or --all for every dead letter"))
	}
	if !c.yes && !c.dryRun && !cli.IsTerminal(c.stdin) {
		err = errors.Join(err, errors.New("there is no terminal to ask on; give --yes, or --dry-run to see what would be dropped"))
	}
	if err != nil {
		return usage(err)
	}
	q, done, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	if c.dryRun {
		return c.preview(ctx, q)
	}
	last, err := deadletter.LastLetter(ctx, q)
	if err != nil {
		return err
	}
	counts := newReasons()
	if err := selectedTo(ctx, q, &c.filter, last, counts.add); err != nil {
		return err
	}
	counts.print(c.stderr)
	question := fmt.Sprintf("Forget %d dead %s and the orders in them?", counts.total, lookup.Plural(counts.total, "letter", "letters"))
	if counts.total == 0 || !c.yes && !cli.SaysYes(c.stdin, c.stderr, question) {
		if c.json {
			return c.tell(0, 0, "", "")
		}
		return nil
	}
	about := c.journaled(journal.About{Kind: journal.Drop, Expected: map[string]int{"matching": counts.total}}, last)
	return c.person.On(cmd).Act(cmd.Context(), q, about, nil, func(ctx context.Context) (map[string]int, error) {
		return c.drop(ctx, q, last)
	})
}

// preview prints what drop would do.
func (c *dropCommand) preview(ctx context.Context, q *queue.Queue) error {
	counts, pending := newReasons(), 0
	err := selected(ctx, q, &c.filter, func(page []*settle.Letter) error {
		ends, err := deadletter.DryRunDrop(ctx, q, page)
		if err != nil {
			return err
		}
		var would []*settle.Letter
		for i, l := range page {
			switch {
			case ends[i] == nil:
				would = append(would, l)
			case !errors.Is(ends[i], settle.ErrReplaced): // gone meanwhile
				pending++
			}
		}
		return counts.add(would)
	})
	if err != nil {
		return err
	}
	if !c.json {
		counts.print(c.stdout)
	}
	err = c.tell(counts.total, pending, "would be dropped", "would stay")
	if pending > 0 {
		err = errors.Join(err, partial("%d dead letters would stay", pending))
	}
	return err
}

// drop drops the letters that were counted before, up to the sequence last.
func (c *dropCommand) drop(ctx context.Context, q *queue.Queue, last uint64) (map[string]int, error) {
	deed := deadletter.Drop(q, c.person.Settle())
	tally, err := deadletter.Run(ctx, q, deadletter.Group{Selects: c.selects, Last: last}, deed, deadletter.Options{})
	err = errors.Join(err, c.tell(tally.Fates[deadletter.Dropped], tally.Fates[deadletter.Pending], "dropped", "stay"))
	for _, line := range tally.Errors {
		say(c.stderr, "%s", line)
	}
	if stayed := tally.Stayed(deed); stayed > 0 {
		err = errors.Join(err, partial("%d dead letters stayed", stayed))
	}
	return tally.Counts(), err
}

// droppedLetters is the JSON output of drop.
type droppedLetters struct {
	DryRun  bool `json:"dry_run"`
	Dropped int  `json:"dropped"`
	Stayed  int  `json:"stayed"` // an intent for the order_no is in the queue
}

// tell prints how many letters are gone and how many stay.
func (c *dropCommand) tell(dropped, stayed int, gone, stay string) error {
	if c.json {
		return cli.PrintJSON(c.stdout, droppedLetters{c.dryRun, dropped, stayed})
	}
	say(c.stdout, "%9d %s", dropped, gone)
	if stayed > 0 {
		say(c.stdout, "%9d %s: an intent for the order_no is in the queue", stayed, stay)
	}
	return nil
}
