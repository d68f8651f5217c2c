package xlsx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Rows reads the rows of a sheet in their order.
type Rows struct {
	b     *Book
	sheet Sheet
	part  *part
	s     *scanner
	notes Notes
	first int // the first row with content
	last  int // the last row
	ended bool

	totals []totalsRow
	row    Row
	column int // the last cell of the row
	value  []byte
	text   []byte // of all cells of the row
	ends   []int  // where each cell ends in it
	kinds  []Kind
}

// Row is one row that has content.
type Row struct {
	// Number counts from 1. Rows without content are left out.
	Number int
	// Cells and Kinds have one element for each column, up to the last with content.
	Cells []string
	Kinds []Kind
	// Totals is the name of the table whose totals the row has; "" = it has none.
	Totals string
}

// Notes is what a sheet says about itself that a person should hear.
type Notes struct {
	// HiddenRows counts the rows with content that the sheet does not show. FirstHidden is
	// the first of them.
	HiddenRows  int `json:"hidden_rows,omitempty"`
	FirstHidden int `json:"first_hidden_row,omitempty"`
	// HiddenColumns names the first columns that the sheet does not show.
	HiddenColumns []string `json:"hidden_columns,omitempty"`
	// Filtered says that the sheet has a filter.
	Filtered bool `json:"filtered,omitempty"`
	// Formulas counts the cells whose value a formula made. FirstFormula is the first of
	// them, as in C17.
	Formulas     int    `json:"formulas,omitempty"`
	FirstFormula string `json:"first_formula,omitempty"`
	// Merged counts the merged areas, and FirstMerged names the first ones, as in A2:A4. Only
	// the first cell of each has content.
	Merged      int      `json:"merged_areas,omitempty"`
	FirstMerged []string `json:"first_merged_areas,omitempty"`
	// MergedHeader is a merged area in the first row with content; "" = there is none.
	MergedHeader string `json:"merged_header,omitempty"`
}

const (
	// maxRow bounds the text of one row.
	maxRow = 4 << 20
	// maxWidth bounds the columns up to the last that has content, in any row.
	maxWidth = 2048
	maxNoted = 5
)

// Rows opens a sheet. The caller must close it.
func (b *Book) Rows(sheet Sheet) (*Rows, error) {
	p, err := b.openPart(sheet.part, maxLargePart)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, &Damaged{sheet.part, errors.New("it is missing")}
	}
	r := &Rows{b: b, sheet: sheet, part: p, s: newScanner(p)}
	if r.totals, err = b.tables(sheet.part); err == nil {
		err = r.begin()
	}
	if err != nil {
		_ = p.Close()
		return nil, b.blame(sheet.part, err)
	}
	return r, nil
}

// Close frees the sheet.
func (r *Rows) Close() error { return r.part.Close() }

// Notes returns what was seen so far.
func (r *Rows) Notes() Notes { return r.notes }

// Last returns the number of the last row that was read, with content or without.
func (r *Rows) Last() int { return r.last }

// begin reads up to the rows.
func (r *Rows) begin() error {
	for {
		t, err := r.s.nextStart()
		if errors.Is(err, io.EOF) {
			r.ended = true
			return nil
		} else if err != nil {
			return err
		}
		switch depth := r.s.depth(); {
		case depth == 1 && string(t.name) != "worksheet":
			return errors.New("it is no sheet of cells")
		case depth == 2 && string(t.name) == "sheetData":
			return nil
		case depth == 3 && string(t.name) == "col":
			err = r.noteColumns(t.attrs)
		}
		if err != nil {
			return err
		}
	}
}

func (r *Rows) noteColumns(attrs []byte) error {
	a, err := r.s.attributes(attrs)
	if err != nil || !isTrue(a["hidden"]) {
		return err
	}
	from, ok := readCount([]byte(a["min"]))
	to, ok2 := readCount([]byte(a["max"]))
	if !ok || !ok2 {
		return errSyntax
	}
	for c := from; c <= min(to, MaxColumns) && len(r.notes.HiddenColumns) < maxNoted; c++ {
		r.notes.HiddenColumns = append(r.notes.HiddenColumns, ColumnName(c))
	}
	return nil
}

// Next returns the next row with content. It fills the row with empty cells up to width.
// The error is io.EOF behind the last row, when the sheet was read to its end.
func (r *Rows) Next(width int) (*Row, error) {
	for !r.ended {
		t, err := r.s.next()
		if err != nil {
			return nil, r.blame(err)
		}
		switch {
		case t.kind == startTag && r.s.depth() == 3 && string(t.name) == "row":
			there, err := r.readRow(t.attrs, width)
			if err != nil {
				return nil, r.blame(err)
			}
			if there {
				return &r.row, nil
			}
		case t.kind == startTag:
			if err := r.s.skip(); err != nil {
				return nil, r.blame(err)
			}
		case t.kind == endTag && r.s.depth() == 1:
			if err := r.end(); err != nil {
				return nil, r.blame(err)
			}
		}
	}
	return nil, io.EOF
}

func (r *Rows) blame(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if _, ok := errors.AsType[*CellError](err); ok {
		return err
	}
	return r.b.blame(r.sheet.part, err)
}

// CellError is an error about one cell. The rows behind it were not read.
type CellError struct {
	Row, Column int
	Err         error
}

// Error returns the reason. The caller knows how to name the place.
func (e *CellError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *CellError) Unwrap() error { return e.Err }

// end reads what stands behind the rows.
func (r *Rows) end() error {
	for {
		t, err := r.s.nextStart()
		if errors.Is(err, io.EOF) {
			r.ended = true
			return nil
		} else if err != nil {
			return err
		}
		switch name := string(t.name); {
		case name == "autoFilter" && r.s.depth() == 2:
			r.notes.Filtered = true
		case name == "mergeCell" && r.s.depth() == 3:
			a, err := r.s.attributes(t.attrs)
			if err != nil {
				return err
			}
			r.notes.Merged++
			if from, to, ok := readArea(a["ref"]); ok && from <= r.first && r.first <= to && r.notes.MergedHeader == "" {
				r.notes.MergedHeader = a["ref"]
			}
			if len(r.notes.FirstMerged) < maxNoted {
				r.notes.FirstMerged = append(r.notes.FirstMerged, clip([]byte(a["ref"])))
			}
		}
	}
}

// MergedAt returns a merged area that has cells of a row, or "". It reads no cell.
func (b *Book) MergedAt(sheet Sheet, row int) (string, error) {
	r, err := b.Rows(sheet)
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	r.first = row
	if !r.ended {
		if err = r.s.skip(); err == nil {
			err = r.end()
		}
	}
	return r.notes.MergedHeader, r.b.blame(sheet.part, err)
}

// readRow reads a row. there is false if it has no content.
func (r *Rows) readRow(attrs []byte, width int) (there bool, err error) {
	number, hidden := r.last+1, false
	for {
		name, value, rest, err := attribute(attrs)
		if err != nil {
			return false, err
		}
		if name == nil {
			break
		}
		switch string(name) {
		case "r":
			n, ok := readCount(value)
			if !ok || n <= r.last {
				return false, fmt.Errorf("row %q stands behind row %d", clip(value), r.last)
			}
			number = n
		case "hidden":
			hidden = isTrue(string(value))
		}
		attrs = rest
	}
	if number > MaxRows {
		return false, fmt.Errorf("it has more than %d rows", MaxRows)
	}
	r.last, r.column = number, 0
	r.text, r.ends, r.kinds = r.text[:0], r.ends[:0], r.kinds[:0]
	for {
		t, err := r.s.next()
		if err != nil {
			return false, err
		}
		if t.kind == endTag {
			break
		}
		if t.kind != startTag {
			continue
		}
		if string(t.name) != "c" {
			err = r.s.skip()
		} else {
			err = r.readCell(t.attrs)
		}
		if err != nil {
			return false, err
		}
	}
	if len(r.ends) == 0 {
		return false, nil
	}
	if r.first == 0 {
		r.first = number
	}
	if hidden {
		if r.notes.HiddenRows++; r.notes.FirstHidden == 0 {
			r.notes.FirstHidden = number
		}
	}
	r.finish(width)
	return true, nil
}

// finish makes the row's cells: one text for all of them.
func (r *Rows) finish(width int) {
	n := max(len(r.ends), width)
	all, from := string(r.text), 0
	r.row = Row{Number: r.last, Cells: make([]string, n), Kinds: make([]Kind, n)}
	for i, end := range r.ends {
		r.row.Cells[i], from = all[from:end], end
	}
	copy(r.row.Kinds, r.kinds)
	for _, t := range r.totals {
		if t.from <= r.last && r.last <= t.to {
			r.row.Totals = t.table
		}
	}
}

// readCell reads a cell whose start tag has these attributes.
func (r *Rows) readCell(attrs []byte) error {
	column, style, kind := r.column+1, 0, byte('n')
	for {
		name, value, rest, err := attribute(attrs)
		if err != nil {
			return err
		}
		if name == nil {
			break
		}
		switch string(name) {
		case "r":
			c, row, ok := readPlace(value)
			if !ok || row != r.last || c <= r.column {
				return fmt.Errorf("the cell %q is out of its place in row %d", clip(value), r.last)
			}
			column = c
		case "s":
			n, ok := readCount(value)
			if !ok {
				return errSyntax
			}
			style = n
		case "t":
			if kind = typeOf(value); kind == 0 {
				return fmt.Errorf("a cell has the type %q, which is none", clip(value))
			}
		}
		attrs = rest
	}
	r.column = column
	if text, ok := r.s.only("c", "<v>", "</v></c>"); ok {
		r.value = append(r.value[:0], text...)
		return r.add(column, style, kind, true, false)
	}
	var has, formula bool
	for {
		t, err := r.s.next()
		if err != nil {
			return err
		}
		if t.kind == endTag {
			break
		}
		if t.kind != startTag {
			continue
		}
		switch string(t.name) {
		case "v":
			has = true
			err = r.readValue()
		case "is":
			has = true
			r.value, err = readRich(r.s, r.value[:0])
		case "f":
			formula = true
			err = r.s.skip()
		default:
			err = r.s.skip()
		}
		if err != nil {
			return err
		}
	}
	if !has && !formula {
		return nil
	}
	if formula && has && !r.b.stale {
		if r.notes.Formulas++; r.notes.FirstFormula == "" {
			r.notes.FirstFormula = ColumnName(column) + fmt.Sprint(r.last)
		}
	}
	return r.add(column, style, kind, has, formula)
}

// The types of cells by one letter; n is a number.
func typeOf(t []byte) byte {
	switch string(t) {
	case "n":
		return 'n'
	case "s":
		return 's'
	case "str":
		return 't'
	case "inlineStr":
		return 'i'
	case "b":
		return 'b'
	case "e":
		return 'e'
	case "d":
		return 'd'
	}
	return 0
}

// readValue reads the text of an element whose start was read.
func (r *Rows) readValue() error {
	r.value = r.value[:0]
	for {
		t, err := r.s.next()
		if err != nil {
			return err
		}
		switch t.kind {
		case endTag:
			return nil
		case startTag:
			return errSyntax
		}
		if r.value = append(r.value, t.text...); len(r.value) > maxToken {
			return fmt.Errorf("a cell is longer than %d bytes", maxToken)
		}
	}
}

// add adds a cell to the row.
func (r *Rows) add(column, style int, kind byte, has, formula bool) (err error) {
	if column > maxWidth {
		return &CellError{r.last, column, fmt.Errorf("the cell has content, and an import reads %d columns at most; remove what stands far to the right", maxWidth)}
	}
	before := len(r.text)
	is := Text
	if kind != 't' && kind != 'i' { // spreadsheets read them without the space around them
		r.value = bytes.TrimSpace(r.value)
		has = has && len(r.value) > 0
	}
	switch {
	case formula && (!has || r.b.stale):
		is = Uncalculated
	case !has:
		is = Empty
	case kind == 's':
		i, ok := readCount(r.value)
		if !ok {
			err = fmt.Errorf("has %q where the number of a text should be", clip(r.value))
			break
		}
		r.text, err = r.b.strings.append(r.text, i)
	case kind == 'n':
		r.text, is, err = r.appendNumber(style)
	case kind == 'b':
		is = Bool
		switch strings.ToLower(string(r.value)) {
		case "1", "true":
			r.text = append(r.text, "TRUE"...)
		case "0", "false":
			r.text = append(r.text, "FALSE"...)
		default:
			err = fmt.Errorf("has %q where TRUE or FALSE should be", clip(r.value))
		}
	case kind == 'e':
		is = Error
		r.text = append(r.text, r.value...)
	case kind == 'd':
		is = Date
		r.text = appendISODate(r.text, r.value)
	default:
		r.text = append(r.text, r.value...)
		if kind == 't' {
			r.text = unescapeCharacters(r.text, before)
		}
	}
	if err != nil {
		return fmt.Errorf("cell %s%d %w", ColumnName(column), r.last, err)
	}
	if len(r.text) > maxRow {
		return &CellError{r.last, column, fmt.Errorf("the row is longer than %d bytes", maxRow)}
	}
	if is == Empty || is == Text && len(r.text) == before && !formula {
		return nil
	}
	r.fill(column, before)
	r.ends, r.kinds = append(r.ends, len(r.text)), append(r.kinds, is)
	return nil
}

// fill adds empty cells in front of a column.
func (r *Rows) fill(column, at int) {
	for len(r.ends) < column-1 {
		r.ends, r.kinds = append(r.ends, at), append(r.kinds, Empty)
	}
}

func (r *Rows) appendNumber(style int) (text []byte, is Kind, err error) {
	var f format
	if style < len(r.b.formats) {
		f = r.b.formats[style]
	}
	if f.date {
		return appendDate(r.text, r.value, r.b.date1904)
	}
	before := len(r.text)
	text, is, err = appendNumber(r.text, r.value)
	switch {
	case is != Number:
	case wholeDigits(text[before:]) < f.digits:
		if is = Padded(f.digits); !f.zeros || !isDigits(text[before:]) {
			is += mostDigits + 1
		}
	case f.signs:
		is = Signed
	}
	return text, is, err
}

// wholeDigits counts the digits of a number in front of its decimal point.
func wholeDigits(number []byte) int {
	number = bytes.TrimPrefix(number, []byte("-"))
	if i := bytes.IndexByte(number, '.'); i >= 0 {
		return i
	}
	return len(number)
}
