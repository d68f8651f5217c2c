package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/deadletter"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

type exportCommand struct {
	*surroundings
	filter
	format string
}

func newExportCommand(s *surroundings) *cobra.Command {
	c := &exportCommand{surroundings: s}
	cmd := &cobra.Command{
		Use:   "export [ORDER_NO]",
		Short: "Write the orders of dead letters to a file for enqueue",
		Long: "export writes the orders, oldest letter first: as NDJSON byte for byte, or as CSV if the orders are\n" +
			"flat (text fields, and timeout a whole number) and all have the same fields. In CSV the fields follow\n" +
			"the order of the columns. The letters stay. Correct the file and enqueue it: the new intents are\n" +
			"corrections of the same order numbers.\n\n" +
			"The CSV is for enqueue and not adapted to spreadsheets: cells may begin with = or +.\n\n" +
			"Exit code 3: the format cannot hold the orders of some letters, which stderr names.",
		Example: "  orderpost deadletter export --reason 'bad currency' > fix.ndjson\n  orderpost deadletter export --batch march --format csv > fix.csv",
		Args:    c.one,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cli.NoJSON(cmd, "it writes orders; --format ndjson, the default, is JSON")
	cmd.ValidArgsFunction = broker.CompleteLetter(s.environ)
	c.register(cmd, s.environ)
	cmd.Flags().StringVar(&c.format, "format", "ndjson", "ndjson or csv")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]cobra.Completion{"ndjson", "csv"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (c *exportCommand) run(ctx context.Context) error {
	err := c.compile(time.Now())
	if c.format != "ndjson" && c.format != "csv" {
		err = errors.Join(err, fmt.Errorf("--format: %q is neither ndjson nor csv", c.format))
	}
	if err != nil {
		return usage(err)
	}
	q, done, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	to := deadletter.NDJSON(c.stdout)
	if c.format == "csv" {
		columns, err := c.columns(ctx, q)
		if err != nil {
			return err
		}
		to = deadletter.CSV(c.stdout, columns)
	}
	skipped := 0
	err = selected(ctx, q, &c.filter, func(page []*settle.Letter) error {
		for _, l := range page {
			why, err := to.Order(l, l.Body)
			if err != nil {
				return err
			}
			if why != nil {
				hint := ""
				if errors.As(why, new(deadletter.NotCSV)) {
					hint = " (use --format ndjson)"
				}
				say(c.stderr, "order %q not exported: %v%s", l.OrderNo, why, hint)
				skipped++
			}
		}
		return nil
	})
	if err = errors.Join(err, to.End()); err == nil && skipped > 0 {
		err = partial("%d dead letters were not exported", skipped)
	}
	return err
}

// columns returns the fields of all orders. They are the header of a CSV file.
func (c *exportCommand) columns(ctx context.Context, q *queue.Queue) (*deadletter.Columns, error) {
	columns := &deadletter.Columns{}
	err := selected(ctx, q, &c.filter, func(page []*settle.Letter) error {
		for _, l := range page {
			_ = columns.Add(l.Body) // the export reports it
		}
		return nil
	})
	return columns, err
}
