package deadletter

import (
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/deadletter"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// listRows is the default number of letters in the text output.
const listRows = 50

// errEnough ends a walk early.
var errEnough = errors.New("enough")

type listCommand struct {
	selection
	limit     int
	json, csv bool
}

func newListCommand(s *surroundings) *cobra.Command {
	c := &listCommand{selection: selection{surroundings: s}}
	cmd := &cobra.Command{
		Use:   "list [ORDER_NO]",
		Short: "List dead letters, counted by reason",
		Long: "list counts the dead letters by outcome, reason and what the answers themselves say, and then shows\n" +
			"them, oldest first: \"under way\" if a replay or a correction is in the queue. --answer selects by what the answers say: the API's code and message, at most\n" +
			"60 characters, in which # stands for what differs from order to order.\n" +
			"--json prints one object per line, --csv a table for spreadsheets. Both print all letters.",
		Example: "  orderpost deadletter list --outcome unknown --since 24h\n  orderpost deadletter list --status 5xx --order-no 'A-2026*' --csv\n  orderpost deadletter list --answer 'balance # is too low'",
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.register(cmd)
	f := cmd.Flags()
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
	var wrong error
	if c.json && c.csv {
		wrong = errors.New("--json and --csv: give one of them")
	}
	if c.limit < 0 {
		wrong = errors.Join(wrong, errors.New("--limit: is below 0"))
	}
	q, group, done, err := c.open(ctx, wrong)
	defer done()
	if err != nil {
		return err
	}
	letter, end := c.rows()
	if !c.json && !c.csv {
		counts := newReasons()
		err := group.Walk(ctx, q, func(page []*settle.Letter, _ int) error {
			counts.add(page...)
			return nil
		})
		if err != nil {
			return err
		}
		counts.print(c.stdout)
		if counts.total > 0 && c.limit > 0 && counts.total > c.limit {
			defer say(c.stdout, "… and %d more (--limit 0 shows all, filters narrow it)", counts.total-c.limit)
		}
	}
	return errors.Join(c.print(ctx, q, group, letter), end())
}

// printer prints a letter. underway says that a replay or a correction of it is in the queue, where the text tells it.
type printer func(l *settle.Letter, underway bool) error

// print prints the letters up to the limit.
func (c *listCommand) print(ctx context.Context, q *queue.Queue, g deadletter.Group, letter printer) error {
	left := c.limit
	err := g.Walk(ctx, q, func(page []*settle.Letter, _ int) (err error) {
		if c.limit > 0 {
			page = page[:min(len(page), left)]
		}
		underway := make([]bool, len(page))
		if !c.json && !c.csv {
			if underway, err = deadletter.Underway(ctx, q, page); err != nil {
				return err
			}
		}
		for i, l := range page {
			if err := letter(l, underway[i]); err != nil {
				return err
			}
			if left--; left == 0 {
				return errEnough
			}
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return err
}

// rows returns what prints the letters one at a time, and what prints the rest at the end.
func (c *listCommand) rows() (letter printer, end func() error) {
	out, nothing := cli.ForTerminal(c.stdout), func() error { return nil }
	switch {
	case c.json:
		enc := json.NewEncoder(out)
		return func(l *settle.Letter, _ bool) error { return enc.Encode(l) }, nothing
	case c.csv:
		w := csv.NewWriter(out)
		_ = w.Write(csvHeader) // the writer keeps an error, and end returns it
		return func(l *settle.Letter, _ bool) error { return w.Write(csvRow(l)) }, func() error {
			w.Flush()
			return w.Error()
		}
	default:
		return (&tableRows{w: c.stdout, now: time.Now()}).letter, nothing
	}
}

var csvHeader = []string{"filed_at", "order_no", "outcome", "verdict", "status", "attempts", "replays", "batch", "source", "reason", "error", "response", "said"}

func csvRow(l *settle.Letter) []string {
	record := []string{stamp(l.FiledAt), l.OrderNo, l.Outcome.String(), l.Verdict.String(), strconv.Itoa(l.Status),
		strconv.Itoa(l.Attempts), strconv.Itoa(l.Replays), l.Batch, l.Source, l.Reason, l.Error, l.Response, l.Said}
	for i, cell := range record {
		record[i] = harmless(cell)
	}
	return record
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

// maxReasons is the largest number of reasons that are counted separately. There are
// few unless a rule puts parts of the order into the reason.
const maxReasons = 1000

type reason struct {
	outcome, text string
	status        int
	said          string
}

// reasons counts letters by outcome, reason, status and what the answer says.
type reasons struct {
	total  int
	counts map[reason]int
}

func newReasons() *reasons { return &reasons{counts: make(map[reason]int)} }

func (r *reasons) add(letters ...*settle.Letter) {
	for _, l := range letters {
		r.total++
		key := reason{l.Outcome.String(), l.Reason, l.Status, l.Said}
		if _, known := r.counts[key]; !known && len(r.counts) >= maxReasons {
			key = reason{outcome: key.outcome, text: deadletter.OtherReasons}
		}
		r.counts[key]++
	}
}

// reasonRows is the number of reasons in the text output.
const reasonRows = 15

func (r *reasons) print(w io.Writer) {
	if r.total == 0 {
		say(w, "No dead letters match.")
		return
	}
	say(w, "%d dead %s\n", r.total, lookup.Plural(r.total, "letter", "letters"))
	keys := slices.SortedFunc(maps.Keys(r.counts), func(a, b reason) int {
		return cmp.Or(r.counts[b]-r.counts[a], cmp.Compare(a.outcome, b.outcome), cmp.Compare(a.text, b.text), cmp.Compare(a.status, b.status), cmp.Compare(a.said, b.said))
	})
	for _, k := range keys[:min(len(keys), reasonRows)] {
		say(w, "%9d  %-9s  %s", r.counts[k], k.outcome, lookup.Clip(orDash(k.text), 57))
		if k.said != "" {
			say(w, "%9s  %-9s  %s", "", strconv.Itoa(k.status), lookup.Clip(k.said, 57))
		}
	}
	if more := len(keys) - reasonRows; more > 0 {
		say(w, "           … and %d more reasons", more)
	}
	say(w, "")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// orderNoColumn is the width of the column for order numbers.
const orderNoColumn = 24

// tableRows prints lines of at most 80 columns. It prints an order number that does not
// fit into its column in full on the next line, because the next command needs it.
type tableRows struct {
	w     io.Writer
	now   time.Time // for letters of another year
	begun bool
}

func (r *tableRows) letter(l *settle.Letter, underway bool) error {
	const line = "%-11s  %-9s  %-4s  %3s  %-24s  %s\n"
	if !r.begun {
		r.begun = true
		if _, err := fmt.Fprintf(r.w, line, "FILED (UTC)", "OUTCOME", "HTTP", "TRY", "ORDER_NO", "REASON"); err != nil {
			return err
		}
	}
	status := "-"
	if l.Status != 0 {
		status = strconv.Itoa(l.Status)
	}
	filed := l.FiledAt.UTC().Format("01-02 15:04")
	if l.FiledAt.UTC().Year() != r.now.UTC().Year() {
		filed = l.FiledAt.UTC().Format("2006-01-02")
	}
	why := orDash(l.Reason)
	if underway {
		why = "under way"
	}
	_, err := fmt.Fprintf(r.w, line, filed, l.Outcome, status,
		strconv.Itoa(l.Attempts), lookup.Clip(l.OrderNo, orderNoColumn), lookup.Clip(why, 19))
	if err == nil && utf8.RuneCountInString(l.OrderNo) > orderNoColumn {
		for _, part := range lookup.Lines(l.OrderNo, 76) {
			_, err = fmt.Fprintf(r.w, "    %s\n", part)
		}
	}
	if name := l.Name(); err == nil && name != l.OrderNo {
		_, err = fmt.Fprintf(r.w, "    orderpost deadletter show %s\n", name)
	}
	return err
}
