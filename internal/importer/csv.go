package importer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"orderpost/internal/order"
)

// RowError says which cell of which file is wrong, and what to do about it.
type RowError struct {
	File string
	// Line is the line of the file, counted from 1 with the header; Column the
	// position in the row counted from 1, 0 where the whole row is meant.
	Line, Column int
	// Name is the column's name.
	Name string
	Err  error
}

// Error is file:line:column: name: what.
func (e *RowError) Error() string {
	where := fmt.Sprintf("%s:%d", e.File, e.Line)
	if e.Column > 0 {
		where += fmt.Sprintf(":%d", e.Column)
	}
	if e.Name != "" && !strings.HasPrefix(e.Err.Error(), e.Name+":") {
		where += ": column " + e.Name
	}
	return where + ": " + e.Err.Error()
}

// Unwrap gives the reason.
func (e *RowError) Unwrap() error { return e.Err }

// Row is one order of a file.
type Row struct {
	// Number counts the file's data rows from 1; Line is where the row begins.
	Number, Line int
	OrderNo      string
	Body         []byte
	Warnings     []order.Warning
}

// reader reads rows of a CSV file with a header.
type reader struct {
	file   string
	csv    *csv.Reader
	names  []string
	keys   [][]byte // the names as JSON strings with their colon
	orders int      // index of order_no
	number int
}

// newReader reads and checks the header. The columns become the fields of the
// order's JSON object: timeout a whole number, everything else text.
func newReader(file string, r io.Reader) (*reader, error) {
	c := csv.NewReader(r)
	c.ReuseRecord = true
	header, err := c.Read()
	if errors.Is(err, io.EOF) {
		return nil, &RowError{File: file, Line: 1, Err: errors.New("the file is empty; its first row must name the columns, one of them order_no")}
	}
	if err != nil {
		return nil, csvError(file, err)
	}
	rd := &reader{file: file, csv: c, orders: -1}
	seen := make(map[string]int)
	for i, name := range header {
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff")
		}
		if err := rd.addColumn(i, name, seen); err != nil {
			return nil, &RowError{File: file, Line: 1, Column: i + 1, Err: err}
		}
	}
	if rd.orders < 0 {
		return nil, &RowError{File: file, Line: 1, Err: fmt.Errorf("there is no column order_no among %s", strings.Join(rd.names, ", "))}
	}
	return rd, nil
}

func (r *reader) addColumn(i int, name string, seen map[string]int) error {
	switch first, twice := seen[name]; {
	case strings.TrimSpace(name) == "":
		return errors.New("the column has no name; give it one or remove it")
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("the column's name %q is padded with spaces; remove them", name)
	case twice:
		return fmt.Errorf("the name %q is taken by column %d already", name, first+1)
	case name == "timestamp":
		return errors.New("a timestamp column is refused: the worker stamps each attempt with the time at which it is sent; remove the column")
	}
	key, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		return fmt.Errorf("the column's name %q is not valid UTF-8; save the file as UTF-8", name)
	}
	seen[name] = i
	if name == order.FieldOrderNo {
		r.orders = i
	}
	r.names = append(r.names, name)
	r.keys = append(r.keys, append(key, ':'))
	return nil
}

// next reads one row. The error is io.EOF at the end, or a *RowError; after a
// *RowError about a cell the next row can be read.
func (r *reader) next() (Row, error) {
	record, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return Row{}, io.EOF
	}
	if err != nil {
		return Row{}, csvError(r.file, err)
	}
	r.number++
	line, _ := r.csv.FieldPos(0)
	row := Row{Number: r.number, Line: line, OrderNo: record[r.orders]}
	if row.Body, err = r.body(record); err != nil {
		return row, err
	}
	parsed, err := order.Parse(row.Body)
	if err != nil {
		return row, r.cellError(line, err)
	}
	row.OrderNo, row.Warnings = parsed.OrderNo(), parsed.Warnings()
	return row, nil
}

// body writes the row as a JSON object, its fields in the order of the columns.
func (r *reader) body(record []string) ([]byte, error) {
	body := make([]byte, 0, 256)
	body = append(body, '{')
	for i, cell := range record {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r.keys[i]...)
		var err error
		if r.names[i] == order.FieldTimeout {
			body, err = appendInteger(body, cell)
		} else {
			body, err = jsontext.AppendQuote(body, cell)
		}
		if err != nil {
			line, _ := r.csv.FieldPos(i)
			return nil, &RowError{File: r.file, Line: line, Column: i + 1, Name: r.names[i], Err: err}
		}
	}
	return append(body, '}'), nil
}

func appendInteger(dst []byte, cell string) ([]byte, error) {
	digits := strings.TrimPrefix(cell, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
		return nil, fmt.Errorf("%q is not a whole number such as 30", cell)
	}
	return append(dst, cell...), nil
}

// cellError finds the column that the signing rules complain about.
func (r *reader) cellError(line int, err error) error {
	e := &RowError{File: r.file, Line: line, Err: err}
	var rule *order.Error
	if errors.As(err, &rule) {
		for i, name := range r.names {
			if rule.Path == name {
				e.Column, e.Name = i+1, name
			}
		}
	}
	return e
}

func csvError(file string, err error) error {
	var parse *csv.ParseError
	if !errors.As(err, &parse) {
		return fmt.Errorf("%s: %w", file, err)
	}
	e := &RowError{File: file, Line: parse.StartLine, Err: parse.Err}
	switch {
	case errors.Is(parse.Err, csv.ErrFieldCount):
		e.Err = errors.New("the row has more or fewer cells than the header; check for a delimiter or a quote inside a cell")
	case errors.Is(parse.Err, csv.ErrQuote), errors.Is(parse.Err, csv.ErrBareQuote):
		e.Line, e.Column = parse.Line, parse.Column
		e.Err = fmt.Errorf("%w; put the whole cell in quotes and double the quotes inside it", parse.Err)
	}
	return e
}
