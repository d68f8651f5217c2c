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
		Short: "Write the orders of dead letters to a file for enqueue",
		Long: "export writes the orders, oldest letter first: as NDJSON byte for byte, or as CSV if the orders are\n" +
			"flat (text fields, and timeout a whole number) and all have the same fields. In CSV the fields follow\n" +
			"the order of the columns. The letters stay. Correct the file and enqueue it: the new intents are\n" +
			"corrections of the same order numbers.\n\n" +
			"The CSV is for enqueue and not adapted to spreadsheets: cells may begin with = or +.\n\n" +
			"Exit code 3: the format cannot hold the orders of some letters, which stderr names.",
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

// write exports one letter. why says why that is not possible.
func (c *exportCommand) write(ctx context.Context, q *queue.Queue, to exporter, l *settle.Letter) (why, err error) {
	body, err := q.WholeBody(ctx, l)
	if err != nil {
		return err, nil
	}
	return to.order(body)
}

// columns returns the names of all fields, in the order in which they first occur. They
// are the header of a CSV file.
func (c *exportCommand) columns(ctx context.Context, q *queue.Queue) ([]string, error) {
	var names []string
	known := make(map[string]bool)
	_, err := (&surroundings{stderr: io.Discard}).selected(ctx, q, &c.filter, func(page []*settle.Letter) error {
		for _, l := range page {
			fields, err := flat(l.Body)
			if err != nil {
				continue // write will report it
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

// exporter writes orders. order's why says why the format cannot hold this one.
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
		_ = e.w.Write(columns) // the writer keeps an error, and end returns it
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

// flat reads an order whose fields are text, except timeout, as enqueue reads them from
// a CSV row. It skips a timestamp, because each attempt gets its own.
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
		f := field{name: name.(string)} // the key of a JSON object is a string
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

// plainName reports whether enqueue takes the name of a column literally. Dots nest,
// colons set types, enqueue skips columns that begin with an underscore, and delimiters
// or braces would confuse its detection of the format.
func plainName(name string) bool {
	return name != "" && strings.TrimSpace(name) == name && !strings.ContainsAny(name, ".:,;|\"{") && name[0] != '_' &&
		strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0
}

func cell(name string, value json.Token) (string, error) {
	switch v := value.(type) {
	case string:
		if name == order.FieldTimeout || strings.ContainsAny(v, "\r\ufffd") { // U+FFFD replaced a character that is lost
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
