// Package reconcile is the command that compares a list of the API's operator with the books, and settles what is
// unknown by it.
//
//	reconcile.go  the command and its summary
//	compare.go    the classes of orders, and how both sides meet: on disk, in parts that fit into memory
//	apply.go      settles unknown orders by the list, as deadletter resolve does
package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"orderpost/internal/cli"
	"orderpost/internal/cli/broker"
	"orderpost/internal/cli/lookup"
	"orderpost/internal/deadletter"
	"orderpost/internal/files/importer"
	"orderpost/internal/order"
	"orderpost/internal/queue"
)

const (
	// defaultMargin is longer than most APIs take a timestamp for fresh, and than clocks differ.
	defaultMargin = time.Hour
	// examples is how many orders of a class, and how many bad lines, the summary names.
	examples = 5
)

type command struct {
	environ        map[string]string
	stdin          io.Reader
	stdout, stderr io.Writer
	person         broker.Person

	column, asOf, since, until, batch, results string
	margin                                     time.Duration
	apply, complete, yes, json                 bool

	scope scope
	q     *queue.Queue
}

// NewCommand returns the command.
func NewCommand(environ map[string]string, stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	c := &command{environ: environ, stdin: stdin, stdout: stdout, stderr: stderr}
	cmd := &cobra.Command{
		Use:   "reconcile LIST --as-of TIME",
		Short: "Compare the API's own list of orders with the books",
		Long: "reconcile reads a list of the orders that exist at the API, as its operator or its dashboard exports it\n" +
			"(CSV, NDJSON or a workbook, also with gzip or zstd; - is standard input), and compares it with the results:\n" +
			"numbers only, since a result keeps no body. --as-of says when the list was made. An order that was attempted\n" +
			"within --margin of that time, or later, need not be in it and is set apart. --batch, --since and --until\n" +
			"say which of our orders the list should have.\n\n" +
			"--apply settles orders whose outcome is unknown: as accepted if the list has them, and as rejected if it\n" +
			"does not and you say with --complete that it has every order. It journals that, asks first, and waits for\n" +
			"a second person where the fleet's rule wants one. It changes no other order: a contradiction is for a person.\n\n" +
			"Both sides are spread over temporary files in $TMPDIR, about 200 bytes an order.\n\n" +
			"Exit code 3: the list and the books differ, or the list has lines without an order number.",
		Example: "  orderpost reconcile theirs.csv --order-no reference --as-of 2026-01-31T18:00:00Z --results differences.csv\n" +
			"  orderpost reconcile theirs.ndjson --order-no data.order_no --as-of 2h --batch march --complete --apply",
		Args: cli.Named(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&c.column, "order-no", order.FieldOrderNo, "the list's `column` with our order numbers; in NDJSON the member, such as data.order_no")
	f.StringVar(&c.asOf, "as-of", "", "when the list was made (RFC 3339, or 90m, 24h, 7d ago)")
	f.DurationVar(&c.margin, "margin", defaultMargin, "how close to the ends of the list's time an order proves nothing by being absent")
	f.StringVar(&c.since, "since", "", "the list has orders from this time on (as --as-of; default all)")
	f.StringVar(&c.until, "until", "", "the list has orders before this time (as --as-of; default all up to --as-of)")
	f.StringVar(&c.batch, "batch", "", "the list has the orders of this import only")
	f.StringVar(&c.results, "results", "", "write each order that does not simply agree to this `file`, as CSV")
	f.BoolVar(&c.complete, "complete", false, "the list has every order that the API had: one that is not in it does not exist")
	f.BoolVar(&c.apply, "apply", false, "settle the unknown orders that the list decides")
	f.BoolVar(&c.yes, "yes", false, "do not ask")
	cli.NotEmpty(cmd, "order-no", "as-of", "since", "until", "batch", "results")
	_ = cmd.RegisterFlagCompletionFunc("batch", broker.CompleteBatch(environ)) // the flag exists
	cli.CompleteFiles(cmd)
	cli.CompleteFiles(cmd, "results")
	cli.JSONFlag(cmd, &c.json, "reconcile")
	c.person.Register(cmd, environ)
	return broker.Patient(cmd, environ, broker.AgainOrders)
}

func (c *command) readFlags() (cfg broker.Config, err error) {
	now, errs := time.Now(), []error{cli.ReadEnv(&cfg, c.environ), cfg.Queue.Validate()}
	read := func(flag, text string) time.Time {
		at, err := deadletter.ReadTime(text, now)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
		return at
	}
	c.scope = scope{asOf: read("as-of", c.asOf), since: read("since", c.since), until: read("until", c.until), margin: c.margin, batch: c.batch}
	switch {
	case c.asOf == "":
		errs = append(errs, errors.New("--as-of: say when the list was made; nothing else tells what it can have"))
	case c.scope.asOf.After(now):
		errs = append(errs, errors.New("--as-of: that time is still to come"))
	}
	if c.margin < 0 {
		errs = append(errs, errors.New("--margin: is below 0"))
	}
	if c.apply && !c.yes && !cli.IsTerminal(c.stdin) {
		errs = append(errs, errors.New("there is no terminal to ask on; give --yes, or leave --apply out to see what it would do"))
	}
	if err = errors.Join(errs...); err != nil {
		err = &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	return cfg, err
}

func (c *command) run(cmd *cobra.Command, name string) error {
	cfg, err := c.readFlags()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "orderpost-reconcile-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := cmd.Context()
	sides, err := newSpread(dir)
	defer sides.close()
	if err != nil {
		return err
	}
	r := &report{List: name, AsOf: c.scope.asOf.UTC(), MarginSeconds: c.margin.Seconds(), Complete: c.complete, Orders: make(map[Class]int)}
	if err := c.readList(ctx, dir, r, sides); err != nil {
		return err
	}
	q, done, err := broker.Open(ctx, cfg, broker.Options{Name: "reconcile", StartStopped: true, Stderr: c.stderr})
	if err != nil {
		return err
	}
	defer done()
	c.q = q
	state, err := q.Results().State(ctx)
	if err != nil {
		return err
	}
	d := &decisions{knew: state.End()}
	if d.lastLetter, err = deadletter.LastLetter(ctx, q); err != nil {
		return err
	}
	_, err = queue.RecordsSince(ctx, q, 0, func(rec *order.Record) error { return sides.add(recordEntry(rec)) }) // audit names unreadable ones
	if err == nil {
		r.Forgotten, err = q.Retention.Forgotten(ctx)
	}
	if err == nil {
		err = c.compare(ctx, sides, r, d)
	}
	if err != nil {
		return err
	}
	if !c.json {
		c.print(r)
	}
	var left error
	if c.apply {
		if left, err = c.applyAll(cmd, r, d); err != nil {
			return err
		}
	}
	if c.json {
		err = cli.PrintJSON(c.stdout, r)
	}
	if n := r.differences(); err == nil && left == nil && n > 0 {
		left = partial("%d differences between the list and the books", n)
	}
	return errors.Join(err, left)
}

// readList copies the list, which somebody may change meanwhile, and spreads its numbers.
func (c *command) readList(ctx context.Context, dir string, r *report, to *spread) error {
	in := c.stdin
	if r.List != "-" {
		f, err := os.Open(r.List)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	list, err := os.CreateTemp(dir, "list-*")
	if err != nil {
		return err
	}
	defer func() { _ = list.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(list, hash), cli.Interruptible(ctx, in)); err != nil {
		return fmt.Errorf("%s: %w", r.List, err)
	}
	r.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return importer.EachNumber(ctx, list, importer.Options{File: r.List, Temp: dir}, c.column, func(line int, no string, bad error) error {
		if r.Lines++; bad == nil {
			return to.add(&entry{OrderNo: no, Line: line})
		}
		if r.BadLines++; len(r.Errors) < examples {
			r.Errors = append(r.Errors, fmt.Sprintf("line %d: %v", line, bad))
		}
		return nil
	})
}

// report is the JSON output.
type report struct {
	List          string    `json:"list"`
	SHA256        string    `json:"sha256"`
	AsOf          time.Time `json:"as_of"`
	MarginSeconds float64   `json:"margin_s"`
	Complete      bool      `json:"complete"`
	Lines         int       `json:"lines"`
	BadLines      int       `json:"bad_lines"`
	// Forgotten counts the intents whose results are not kept any more.
	Forgotten uint64         `json:"forgotten"`
	Agreed    int            `json:"agreed"`
	Orders    map[Class]int  `json:"orders"`
	Examples  []example      `json:"examples"`
	Applied   map[string]int `json:"applied,omitempty"`
	Errors    []string       `json:"errors"`
}

type example struct {
	OrderNo string `json:"order_no"`
	Class   Class  `json:"class"`
	Line    int    `json:"line,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

// differences counts what the list and the books do not agree on, without what --apply has settled.
func (r *report) differences() int {
	n := r.BadLines - r.Applied[string(deadletter.Resolved)]
	for _, cl := range classes {
		if !cl.apart {
			n += r.Orders[cl.Class]
		}
	}
	return n
}

// compare fills the report, the results file and the decisions.
func (c *command) compare(ctx context.Context, sides *spread, r *report, d *decisions) error {
	out := csv.NewWriter(io.Discard)
	if c.results != "" {
		f, err := os.Create(c.results)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		out = csv.NewWriter(f)
	}
	_ = out.Write([]string{"order_no", "difference", "line", "outcome", "reason", "batch", "last_attempt_at"}) // Flush reports it
	note := func(f *found, class Class) {
		e := example{OrderNo: f.no, Class: class, Line: f.line}
		row := []string{importer.EscapeFormula(f.no), string(class), strconv.Itoa(f.line), "", "", "", ""}
		if rec := f.record; rec != nil {
			e.Outcome, row[3], row[4], row[5] = rec.Word, rec.Word, importer.EscapeFormula(rec.Reason), importer.EscapeFormula(rec.Batch)
			if !rec.LastAttempt.IsZero() {
				row[6] = rec.LastAttempt.UTC().Format(time.RFC3339)
			}
		}
		_ = out.Write(row)
		if r.Orders[class]++; r.Orders[class] <= examples {
			r.Examples = append(r.Examples, e)
		}
	}
	return sides.each(ctx, func(all []*found) error {
		var never []*found
		for _, f := range all {
			class, agrees := c.scope.class(f)
			if agrees {
				r.Agreed++
			}
			if f.times > 1 {
				note(f, Twice)
			}
			switch class {
			case "":
				continue
			case Never:
				never = append(never, f)
				continue
			case UnknownExists:
				d.add(1, f.record)
			case UnknownAbsent:
				d.add(0, f.record)
			}
			note(f, class)
		}
		err := recheck(ctx, c.q, never, note)
		out.Flush()
		return cmp.Or(err, out.Error())
	})
}

func (c *command) print(r *report) {
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintln(c.stdout, cli.Printable(fmt.Sprintf(format, args...))) // Guard reports it
	}
	say("%s: %d lines, as of %s", r.List, r.Lines, r.AsOf.Format(time.RFC3339))
	say("%9d agree: both have them", r.Agreed)
	for _, apart := range []bool{false, true} {
		for _, cl := range classes {
			if n := r.Orders[cl.Class]; n > 0 && cl.apart == apart {
				say("%9d %s: %s", n, cl.Class, cl.text)
				for _, e := range r.Examples {
					if e.Class == cl.Class {
						say("            %s %s", lookup.Clip(e.OrderNo, 50), e.Outcome)
					}
				}
			}
		}
	}
	if r.BadLines > 0 {
		say("%9d lines have no order number that can be compared", r.BadLines)
	}
	for _, text := range r.Errors {
		say("            %s", text)
	}
	if r.Forgotten > 0 && r.Orders[Never] > 0 {
		say("The results of %d intents are older than the retention and not kept any more: orders that the books do not have may be among them.", r.Forgotten)
	}
}

func partial(format string, args ...any) error {
	return &cli.ExitError{Code: cli.ExitPartial, Err: fmt.Errorf(format, args...)}
}
