package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/deadletter"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

type exportCommand struct {
	selection
	format string
}

func newExportCommand(s *surroundings) *cobra.Command {
	c := &exportCommand{selection: selection{surroundings: s}}
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
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cli.NoJSON(cmd, "it writes orders; --format ndjson, the default, is JSON")
	c.register(cmd)
	cmd.Flags().StringVar(&c.format, "format", "ndjson", "ndjson or csv")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]cobra.Completion{"ndjson", "csv"}, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	return cmd
}

func (c *exportCommand) run(ctx context.Context) error {
	var wrong error
	if c.format != "ndjson" && c.format != "csv" {
		wrong = fmt.Errorf("--format: %q is neither ndjson nor csv", c.format)
	}
	q, group, done, err := c.open(ctx, wrong)
	defer done()
	if err != nil {
		return err
	}
	to := deadletter.NDJSON(c.stdout)
	if c.format == "csv" {
		columns, err := columns(ctx, q, group)
		if err != nil {
			return err
		}
		to = deadletter.CSV(c.stdout, columns)
	}
	_, left, err := deadletter.Export(ctx, q, group, to, func(l *settle.Letter, why error) {
		hint := ""
		if errors.As(why, new(deadletter.NotCSV)) {
			hint = " (use --format ndjson)"
		}
		say(c.stderr, "order %q not exported: %v%s", l.OrderNo, why, hint)
	})
	if err == nil && left > 0 {
		err = partial("%d dead letters were not exported", left)
	}
	return err
}

// columns returns the fields of all orders. They are the header of a CSV file.
func columns(ctx context.Context, q *queue.Queue, g deadletter.Group) (*deadletter.Columns, error) {
	columns := &deadletter.Columns{}
	err := g.Walk(ctx, q, func(page []*settle.Letter, _ int) error {
		for _, l := range page {
			_ = columns.Add(l.Body) // the export reports it
		}
		return nil
	})
	return columns, err
}
