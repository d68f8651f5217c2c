package deadletter

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"orderpost/internal/order"
	"orderpost/internal/program"
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
		Use:   "export",
		Short: "Write the orders of dead letters as enqueue takes them back",
		Long: "export writes the orders themselves, oldest letter first: NDJSON byte for byte, or CSV where the\n" +
			"orders are flat (text fields, and timeout a whole number) and have the same fields, which then\n" +
			"stand in the order of the columns. The letters stay. Correct the file and\n" +
			"enqueue it: the new intents are corrections of the same order numbers.\n\n" +
			"CSV is for enqueue, and is not changed for spreadsheets: cells that begin with = or + stay so.\n\n" +
			"Exit code 3: some letters hold no order that the format can carry; they are named on stderr.",
		Example: "  deadletter export --reason 'bad currency' > fix.ndjson\n  deadletter export --batch march --format csv > fix.csv",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	program.NoJSON(cmd, "it writes orders; --format ndjson, the default, is JSON")
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
	var to exporter = &ndjson{w: c.stdout}
	if c.format == "csv" {
		columns, err := c.columns(ctx, q)
		if err != nil {
			return err
		}
		to = newCSV(c.stdout, columns)
	}
	skipped := 0
	bad, err := c.selected(ctx, q, &c.filter, func(page []*settle.Letter) error {
		for _, l := range page {
			why, err := c.write(ctx, q, to, l)
			if err != nil {
				return err
			}
			if why != nil {
				say(c.stderr, "order %q not exported: %v", l.OrderNo, why)
				skipped++
			}
		}
		return nil
	})
	if err = errors.Join(err, to.end()); err == nil && skipped > 0 {
		err = partial("%d dead letters were not exported", skipped)
	}
	return errors.Join(err, unreadableError(bad))
}

// write exports one letter; why says that it cannot be.
func (c *exportCommand) write(ctx context.Context, q *queue.Queue, to exporter, l *settle.Letter) (why, err error) {
	body, err := q.WholeBody(ctx, l)
	if err != nil {
		return err, nil
	}
	return to.order(body)
}

// columns reads the names of all fields, in the order in which they first
// occur; a CSV file begins with them.
func (c *exportCommand) columns(ctx context.Context, q *queue.Queue) ([]string, error) {
	var names []string
	known := make(map[string]bool)
	_, err := (&surroundings{stderr: io.Discard}).selected(ctx, q, &c.filter, func(page []*settle.Letter) error {
		for _, l := range page {
			fields, err := flat(l.Body)
			if err != nil {
				continue // named when it is written
			}
			for _, f := range fields {
				if !known[f.name] {
					known[f.name] = true
					names = append(names, f.name)
				}
			}
		}
		return nil
	})
	return names, err
}

// exporter writes orders. order's why says that the format cannot carry this
// one.
type exporter interface {
	order(body []byte) (why, err error)
	end() error
}

type ndjson struct{ w io.Writer }

func (e *ndjson) order(body []byte) (why, err error) {
	var line bytes.Buffer
	if err := json.Compact(&line, body); err != nil {
		return fmt.Errorf("its body is not JSON: %w", err), nil
	}
	if line.Bytes()[0] != '{' {
		return errors.New("its body is not a JSON object"), nil
	}
	line.WriteByte('\n')
	_, err = e.w.Write(line.Bytes())
	return nil, err
}

func (e *ndjson) end() error { return nil }

type csvOrders struct {
	w       *csv.Writer
	columns []string
	row     []string
}

func newCSV(w io.Writer, columns []string) *csvOrders {
	e := &csvOrders{w: csv.NewWriter(w), columns: columns, row: make([]string, len(columns))}
	if len(columns) > 0 {
		_ = e.w.Write(columns) // a failure stays with the writer, and end returns it
	}
	return e
}

func (e *csvOrders) order(body []byte) (why, err error) {
	fields, why := flat(body)
	if why != nil {
		return why, nil
	}
	cells := make(map[string]string, len(fields))
	for _, f := range fields {
		cells[f.name] = f.text
	}
	for i, name := range e.columns {
		cell, there := cells[name]
		if !there {
			return fmt.Errorf("it has no field %q, which others here have; a CSV cell cannot say so (use --format ndjson)", name), nil
		}
		e.row[i] = cell
	}
	return nil, e.w.Write(e.row)
}

func (e *csvOrders) end() error {
	e.w.Flush()
	return e.w.Error()
}

type field struct{ name, text string }

// flat reads an order whose fields are text, but for timeout: what a CSV row
// becomes. A timestamp is left out, since each attempt gets its own.
func flat(body []byte) ([]field, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("its body is not a JSON object")
	}
	var out []field
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("its body is not JSON: %w", err)
		}
		value, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("its body is not JSON: %w", err)
		}
		f := field{name: name.(string)} // a key of an object is a string
		if slices.ContainsFunc(out, func(have field) bool { return have.name == f.name }) {
			return nil, fmt.Errorf("it has the field %q twice", f.name)
		}
		if f.name == "timestamp" {
			if _, nested := value.(json.Delim); !nested {
				continue
			}
		}
		if !plainName(f.name) {
			return nil, fmt.Errorf("the field %q would mean something else as a column's name (use --format ndjson)", f.name)
		}
		if f.text, err = cell(f.name, value); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// plainName: as a column's name it is taken as it stands. Dots nest, colons
// give types, an underscore begins the columns that enqueue adds and skips, and
// a delimiter or a brace would mislead it about the format.
func plainName(name string) bool {
	return name != "" && strings.TrimSpace(name) == name && !strings.ContainsAny(name, ".:,;|\"{") && name[0] != '_' &&
		strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0
}

func cell(name string, value json.Token) (string, error) {
	switch v := value.(type) {
	case string:
		if name == order.FieldTimeout || strings.ContainsAny(v, "\r\ufffd") { // U+FFFD: what it was is lost
			return "", fmt.Errorf("field %q cannot be a CSV cell as it is (use --format ndjson)", name)
		}
		return v, nil
	case json.Number:
		if name == order.FieldTimeout && !strings.ContainsAny(v.String(), ".eE") {
			return v.String(), nil
		}
	}
	return "", fmt.Errorf("field %q is not text, and in CSV it would become text (use --format ndjson)", name)
}
