package deadletter

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// listRows is the default number of letters in the text output.
const listRows = 50

type listCommand struct {
	*surroundings
	filter
	limit     int
	json, csv bool
}

func newListCommand(s *surroundings) *cobra.Command {
	c := &listCommand{surroundings: s}
	cmd := &cobra.Command{
		Use:   "list [ORDER_NO]",
		Short: "List dead letters, counted by reason",
		Long: "list counts the dead letters by outcome, reason and what the answers themselves say, and then shows\n" +
			"them, oldest first: \"under way\" if a replay or a correction is in the queue. --answer selects by what the answers say: the API's code and message, at most\n" +
			"60 characters, in which # stands for what differs from order to order.\n" +
			"--json prints one object per line, --csv a table for spreadsheets. Both print all letters.",
		Example: "  orderpost deadletter list --outcome unknown --since 24h\n  orderpost deadletter list --status 5xx --order-no 'A-2026*' --csv\n  orderpost deadletter list --answer 'balance # is too low'",
		Args:    c.one,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.ValidArgsFunction = broker.CompleteLetter(s.environ)
	f := cmd.Flags()
	c.register(cmd, s.environ)
	f.IntVar(&c.limit, "limit", listRows, "letters shown at most; 0 = all (with --json and --csv all is the default)")
	cli.JSONFlag(cmd, &c.json, "dead-letter")
	f.BoolVar(&c.csv, "csv", false, "print CSV")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		if (c.json || c.csv) && !cmd.Flags().Changed("limit") {
			c.limit = 0
		}
	}
	return cmd
}

func (c *listCommand) run(ctx context.Context) error {
	err := c.compile(time.Now())
	if c.json && c.csv {
		err = errors.Join(err, errors.New("--json and --csv: give one of them"))
	}
	if c.limit < 0 {
		err = errors.Join(err, errors.New("--limit: is below 0"))
	}
	if err != nil {
		return usage(err)
	}
	q, done, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	rows := c.rows()
	if !c.json && !c.csv {
		counts := newReasons()
		if err := selected(ctx, q, &c.filter, counts.add); err != nil {
			return err
		}
		counts.print(c.stdout)
		if counts.total > 0 && c.limit > 0 && counts.total > c.limit {
			defer say(c.stdout, "… and %d more (--limit 0 shows all, filters narrow it)", counts.total-c.limit)
		}
	}
	return errors.Join(c.print(ctx, q, rows), rows.end())
}

// print prints the letters up to the limit.
func (c *listCommand) print(ctx context.Context, q *queue.Queue, rows rows) error {
	left := c.limit
	return selected(ctx, q, &c.filter, func(page []*settle.Letter) error {
		if c.limit > 0 {
			page = page[:min(len(page), left)]
		}
		if table, ok := rows.(*tableRows); ok {
			if err := table.look(ctx, q, page); err != nil {
				return err
			}
		}
		for _, l := range page {
			if err := rows.letter(l); err != nil {
				return err
			}
			if left--; left == 0 {
				return errEnough
			}
		}
		return nil
	})
}

// rows prints letters one at a time.
type rows interface {
	letter(l *settle.Letter) error
	end() error
}

func (c *listCommand) rows() rows {
	out := cli.ForTerminal(c.stdout)
	switch {
	case c.json:
		return &jsonRows{json.NewEncoder(out)}
	case c.csv:
		return &csvRows{w: csv.NewWriter(out)}
	default:
		return &tableRows{w: c.stdout, now: time.Now()}
	}
}

type jsonRows struct{ enc *json.Encoder }

func (r *jsonRows) letter(l *settle.Letter) error { return r.enc.Encode(l) }
func (r *jsonRows) end() error                    { return nil }

type csvRows struct {
	w     *csv.Writer
	begun bool
}

var csvHeader = []string{"filed_at", "order_no", "outcome", "verdict", "status", "attempts", "replays", "batch", "source", "reason", "error", "response", "said"}

func (r *csvRows) letter(l *settle.Letter) error {
	r.begin()
	record := []string{stamp(l.FiledAt), l.OrderNo, l.Outcome.String(), l.Verdict.String(), strconv.Itoa(l.Status),
		strconv.Itoa(l.Attempts), strconv.Itoa(l.Replays), l.Batch, l.Source, l.Reason, l.Error, l.Response, l.Said}
	for i, cell := range record {
		record[i] = harmless(cell)
	}
	return r.w.Write(record)
}

func (r *csvRows) begin() {
	if !r.begun {
		r.begun = true
		_ = r.w.Write(csvHeader) // the writer keeps an error, and end returns it
	}
}

func (r *csvRows) end() error {
	r.begin()
	r.w.Flush()
	return r.w.Error()
}

// harmless prevents a spreadsheet from running a cell as a formula.
func harmless(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}
