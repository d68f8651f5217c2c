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
	"unicode"
	"unicode/utf8"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Orders writes the orders of dead letters to a file that enqueue takes.
type Orders interface {
	// Order writes the order of a letter. why says why the format cannot hold it.
	Order(l *settle.Letter, body []byte) (why, err error)
	// End writes what is left.
	End() error
}

// NDJSON writes orders byte for byte, one a line.
func NDJSON(w io.Writer) Orders { return ndjson{w} }

type ndjson struct{ w io.Writer }

func (e ndjson) Order(_ *settle.Letter, body []byte) (why, err error) {
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

func (e ndjson) End() error { return nil }

// CSV writes flat orders, which all have the columns of c.
func CSV(w io.Writer, c *Columns) Orders { return newSheet(w, c.names, nil) }

// sheetColumns follow the fields of an order in a Sheet. An import recognises a file by
// the first of them: it leaves them out, and undoes what escape did.
var sheetColumns = []string{"_outcome", "_reason"}

// Sheet is CSV for people who open the file in a spreadsheet: escape makes each cell one
// that no spreadsheet runs, and two columns say why the order is a dead letter.
func Sheet(w io.Writer, c *Columns, escape func(string) string) Orders {
	return newSheet(w, c.names, escape)
}

type sheet struct {
	w       *csv.Writer
	columns []string
	escape  func(string) string // nil = CSV
	row     []string
}

func newSheet(w io.Writer, columns []string, escape func(string) string) *sheet {
	e := &sheet{w: csv.NewWriter(w), columns: columns, escape: escape}
	if len(columns) == 0 {
		return e
	}
	header := slices.Clone(columns)
	if escape != nil {
		for i := range header {
			header[i] = escape(header[i])
		}
		header = append(header, sheetColumns...)
	}
	_ = e.w.Write(header) // the writer keeps an error, and End returns it
	return e
}

func (e *sheet) Order(l *settle.Letter, body []byte) (why, err error) {
	fields, why := flat(body)
	if why != nil {
		return why, nil
	}
	cells := make(map[string]string, len(fields))
	for _, f := range fields {
		cells[f.name] = f.text
	}
	e.row = e.row[:0]
	for _, name := range e.columns {
		cell, there := cells[name]
		if !there {
			return notCSV("it has no field %q, which others here have; a CSV cell cannot say so", name), nil
		}
		e.row = append(e.row, cell)
	}
	if len(fields) > len(e.columns) {
		extra := slices.IndexFunc(fields, func(f field) bool { return !slices.Contains(e.columns, f.name) })
		return notCSV("it has the field %q, which the header does not name", fields[extra].name), nil
	}
	if e.escape != nil {
		e.row = append(e.row, l.Outcome.String(), strings.ReplaceAll(l.Reason, "\r", " "))
		for i := range e.row {
			e.row[i] = e.escape(e.row[i])
		}
	}
	return nil, e.w.Write(e.row)
}

func (e *sheet) End() error {
	e.w.Flush()
	return e.w.Error()
}

// NotCSV says why CSV cannot hold an order that NDJSON can.
type NotCSV struct{ why string }

func (e NotCSV) Error() string { return e.why }

func notCSV(format string, args ...any) error { return NotCSV{fmt.Sprintf(format, args...)} }

const (
	// maxColumns bounds the columns of a file. No spreadsheet has use for so many.
	maxColumns = 1000
	// maxSets bounds what Columns remembers of orders with different fields.
	maxSets = 10_000
)

// Columns are the fields of flat orders, in the order in which they first occur.
type Columns struct {
	names []string
	known map[string]bool
	sets  map[string]int // how many orders have the same fields, by these fields
}

// Add takes the fields of an order, and returns an error if it is not flat.
func (c *Columns) Add(body []byte) error {
	fields, err := flat(body)
	if err != nil {
		return err
	}
	if c.known == nil {
		c.known, c.sets = make(map[string]bool), make(map[string]int)
	}
	if len(c.names)+len(fields) > maxColumns {
		return notCSV("these orders have more than %d different fields", maxColumns-len(fields))
	}
	own := make([]string, len(fields))
	for i, f := range fields {
		if own[i] = f.name; !c.known[f.name] {
			c.known[f.name] = true
			c.names = append(c.names, f.name)
		}
	}
	slices.Sort(own)
	if set := strings.Join(own, "\n"); c.sets[set] > 0 || len(c.sets) < maxSets {
		c.sets[set]++
	}
	return nil
}

// Fit returns how many of the orders have all fields, as CSV needs it.
func (c *Columns) Fit() int {
	all := slices.Sorted(slices.Values(c.names))
	return c.sets[strings.Join(all, "\n")]
}

// Odd returns how many flat orders lack a field that others have.
func (c *Columns) Odd() (n int) {
	for _, k := range c.sets {
		n += k
	}
	return n - c.Fit()
}

// Survey says what an export of a group would hold.
type Survey struct {
	// Orders can be written as NDJSON, and Flat of them as CSV with Columns.
	Orders, Flat int
	Columns      *Columns
	// Left counts the letters whose orders no format can hold.
	Left int
	// Errors say why, by order number: the first ones.
	Errors []string
	Seen   uint64
}

// Look surveys a group. tell is called after each page.
func Look(ctx context.Context, q *queue.Queue, g Group, tell func(Survey)) (Survey, error) {
	s := Survey{Columns: &Columns{}}
	note := func(l *settle.Letter, why error) {
		if len(s.Errors) < maxErrors {
			s.Errors = append(s.Errors, fmt.Sprintf("order %q: %v", l.OrderNo, why))
		}
	}
	err := g.Walk(ctx, q, func(page []*settle.Letter, seen int) error {
		for _, l := range page {
			if why, _ := NDJSON(io.Discard).Order(l, l.Body); why != nil {
				s.Left++
				note(l, why)
				continue
			}
			s.Orders++
			if why := s.Columns.Add(l.Body); why != nil {
				note(l, why)
			}
		}
		s.Seen += uint64(seen)
		tell(s)
		return ctx.Err()
	})
	s.Flat = s.Columns.Fit()
	return s, err
}

// Export writes the orders of a group. left counts those that the format cannot hold; skipped, which may be nil, is
// called for each, with why.
func Export(ctx context.Context, q *queue.Queue, g Group, to Orders, skipped func(l *settle.Letter, why error)) (written, left int, err error) {
	err = g.Walk(ctx, q, func(page []*settle.Letter, _ int) error {
		for _, l := range page {
			why, err := to.Order(l, l.Body)
			switch {
			case err != nil:
				return err
			case why != nil:
				if left++; skipped != nil {
					skipped(l, why)
				}
			default:
				written++
			}
		}
		return ctx.Err()
	})
	return written, left, errors.Join(err, to.End())
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
			return nil, notCSV("the field %q would mean something else as a column's name", f.name)
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
			return "", notCSV("field %q cannot be a CSV cell as it is", name)
		}
		return v, nil
	case json.Number:
		if name == order.FieldTimeout && !strings.ContainsAny(v.String(), ".eE") {
			return v.String(), nil
		}
	}
	return "", notCSV("field %q is not text, and in CSV it would become text", name)
}
