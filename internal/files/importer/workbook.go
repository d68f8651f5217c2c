package importer

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"orderpost/internal/files/xlsx"
)

// Sheet is what the check says about the sheet of a workbook.
type Sheet struct {
	Name string `json:"name"`
	xlsx.Notes
}

// Says returns what a person should hear about the sheet, a sentence without its point
// each.
func (s *Sheet) Says() (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if s.HiddenRows > 0 {
		by := "by hand"
		if s.Filtered {
			by = "by a filter or by hand"
		}
		say("%s hidden %s, the first is row %d; the import takes them like the others", counted(s.HiddenRows, "row is", "rows are"), by, s.FirstHidden)
	}
	if len(s.HiddenColumns) > 0 {
		say("columns are hidden (%s); the import takes them like the others", strings.Join(s.HiddenColumns, ", "))
	}
	if s.Formulas > 0 {
		say("%s, the first is %s; the import takes the value that the spreadsheet calculated last", counted(s.Formulas, "cell is a formula", "cells are formulas"), s.FirstFormula)
	}
	if s.Merged > 0 {
		areas := strings.Join(s.FirstMerged, ", ")
		if s.Merged > len(s.FirstMerged) {
			areas += ", …"
		}
		say("%s merged (%s); only the first cell of a merged area has content, the import takes the others as empty", counted(s.Merged, "area of cells is", "areas of cells are"), areas)
	}
	return out
}

func counted(n int, one, more string) string {
	if n == 1 {
		more = one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// isBook reports whether a file is to be read as a workbook. It leaves the file at its
// beginning. Files in the container of old Excel are read as workbooks too, because
// package xlsx knows what they are.
func isBook(content io.ReadSeeker, format Format) (bool, error) {
	if format != FormatXLSX && format != FormatAuto && format != "" {
		return false, nil
	}
	head := make([]byte, 8)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	if _, err = content.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	is := xlsx.IsZip(head[:n]) || xlsx.IsOLE(head[:n])
	if format == FormatXLSX && !is {
		return false, xlsx.ErrNoWorkbook
	}
	return is, nil
}

// openBook opens a workbook. content must be an io.ReaderAt, as files are.
func openBook(content io.ReadSeeker, o *Options) (*xlsx.Book, error) {
	at, ok := content.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("%s: a workbook must be a file that can be read in any order", o.File)
	}
	size, err := content.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	book, err := xlsx.Open(at, size, o.Temp)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.File, err)
	}
	return book, nil
}

// sheetTable reads the head of a sheet. closeSheet is never nil.
func sheetTable(book *xlsx.Book, o *Options) (t *table, closeSheet func(), err error) {
	closeSheet = func() {}
	sheet, err := book.Sheet(o.Sheet)
	if _, choose := errors.AsType[*xlsx.ChooseSheet](err); choose {
		return nil, closeSheet, fmt.Errorf("%s: %w", o.File, &advised{err, " (--sheet NAME)"})
	} else if err != nil {
		return nil, closeSheet, fmt.Errorf("%s: %w", o.File, err)
	}
	t = &table{file: o.File, sheet: sheet.Name, format: FormatXLSX, skips: o.skips(), edits: byLine(o.Edits), text: &text{encoding: UTF8, bom: true}}
	if t.rows, err = book.Rows(sheet); err != nil {
		return nil, closeSheet, fmt.Errorf("%s: %w", o.File, err)
	}
	closeSheet = func() { _ = t.rows.Close() }
	t.merged = func() string {
		area, _ := book.MergedAt(sheet, t.named) // the check says what is damaged
		return area
	}
	for len(t.header) == 0 || t.named < o.HeaderRow {
		row, err := t.rows.Next(0)
		if errors.Is(err, io.EOF) {
			return t, closeSheet, &RowError{File: o.File, Sheet: t.sheet, Line: 1, Code: CodeHeader,
				Err: errors.New("the sheet is empty; its first row must name the columns, one of them order_no")}
		} else if err != nil {
			return t, closeSheet, t.sheetError(err)
		}
		if !isBlank(row.Cells) {
			t.header, t.named, t.last = slices.Clone(trimmed(row.Cells, 1)), row.Number, row.Number
		}
	}
	return t, closeSheet, t.headerAt(o.HeaderRow)
}

// sheetError returns an error of reading a sheet with its place.
func (t *table) sheetError(err error) error {
	if cell, ok := errors.AsType[*xlsx.CellError](err); ok {
		return &RowError{File: t.file, Sheet: t.sheet, Line: cell.Row, Column: cell.Column, Code: CodeCells, Err: cell.Err}
	}
	return fmt.Errorf("%s: %w", t.file, err)
}

// nextOfSheet reads one row of a sheet.
func (t *table) nextOfSheet() (record, error) {
	for {
		row, err := t.rows.Next(len(t.header))
		if errors.Is(err, io.EOF) {
			t.blank += t.rows.Last() - t.last
			t.last = t.rows.Last()
			if area := t.rows.Notes().MergedHeader; area != "" {
				return record{}, t.mergedHeader(area)
			}
			return record{}, io.EOF
		} else if err != nil {
			return record{}, t.sheetError(err)
		}
		t.blank += row.Number - t.last - 1
		t.last = row.Number
		if isBlank(row.Cells) && !slices.Contains(row.Kinds, xlsx.Uncalculated) {
			t.blank++
			continue
		}
		if t.skip(row.Number) {
			continue
		}
		t.number++
		cells := t.ofColumns(row.Cells)
		rec := record{number: t.number, line: row.Number, cells: cells, kinds: row.Kinds[:len(cells)], totals: row.Totals}
		if len(cells) != len(t.header) {
			rec.bad = &RowError{File: t.file, Sheet: t.sheet, Line: rec.line, Column: len(cells), Code: CodeCells,
				Err: advise(fmt.Sprintf("the cell has content, and its column has no name in row %d; name the column, or clear the cell", t.named), " (--leave-out '' leaves out what has none)")}
		}
		t.correct(&rec)
		return rec, nil
	}
}

// mergedHeader returns the error of a header in which cells are merged.
func (t *table) mergedHeader(area string) *RowError {
	return &RowError{File: t.file, Sheet: t.sheet, Line: t.named, Code: CodeHeader,
		Err: fmt.Errorf("the cells %s are merged, so row %d does not name each column; unmerge them, and write each column's name into one row", area, t.named)}
}

// kindOf returns what a cell is. Without kinds, as in CSV, every cell is text.
func kindOf(kinds []xlsx.Kind, i int) xlsx.Kind {
	if i < len(kinds) {
		return kinds[i]
	}
	return xlsx.Text
}

// questionOfKind returns what is suspicious about a cell that is no text, or "".
func (c *column) questionOfKind(kind xlsx.Kind, isOrderNo bool) Code {
	switch {
	case kind == xlsx.LongNumber && !c.accept.has(CodeRounded):
		return CodeRounded
	case kind == xlsx.Number && c.accept.has(CodeShown):
		return "" // the sheet shows no more
	case kind.IsNumber() && (isOrderNo || (kind.IsPadded() || kind == xlsx.Signed) && c.typ == TypeString):
		return CodeExcel
	case kind == xlsx.Date && c.typ == TypeString:
		return CodeDate
	case kind == xlsx.Error:
		return CodeError
	}
	return ""
}

// questionOfCell returns the error of a question about a cell that is no text.
func questionOfCell(field, cell string, kind xlsx.Kind, code Code) error {
	what := clip(cell)
	switch {
	case code == CodeError:
		return questionError(field, cell, code)
	case code == CodeRounded:
		what += " is stored as a number, and spreadsheets keep 15 digits of one; get it from its source, and enter it as text"
	case code == CodeDate:
		what += " is stored as a date; it would be sent in this form. To send another one, format the column as text and enter it again"
	case kind.IsPadded():
		what += " is stored as a number, and the zeros that the sheet shows in front of it are no part of it; format the column as text and enter the numbers again"
		if !kind.ShowsZeros() {
			break
		}
		return advise(what, fmt.Sprintf(". To send %s, as the sheet shows it: %s. If it is right as it is: %s", clip(kind.Shown(cell)), acceptFlag(field, CodeShown), acceptFlag(field, code)))
	case kind == xlsx.Signed:
		what += " is stored as a number, and the signs with which the sheet shows it are no part of it; format the column as text and enter what the sheet shows"
	default:
		what += " is stored as a number, which keeps no leading zeros; format the column as text and enter the numbers again"
	}
	return advise(what, ". If it is right as it is: "+acceptFlag(field, code))
}

// asShown returns the cells and kinds of a row in which the numbers of columns that are sent as shown have their zeros.
func (l *layout) asShown(cells []string, kinds []xlsx.Kind) ([]string, []xlsx.Kind) {
	own := false
	for i := range min(len(l.columns), len(kinds)) {
		if c := &l.columns[i]; !kinds[i].ShowsZeros() || c.skip || c.typ != TypeString && i != l.orderNo || !c.accept.has(CodeShown) {
			continue
		}
		if !own {
			cells, kinds, own = slices.Clone(cells), slices.Clone(kinds), true
		}
		cells[i], kinds[i] = kinds[i].Shown(cells[i]), xlsx.Text
	}
	return cells, kinds
}

// checkKind returns an error for a cell that its column cannot have.
func (c *column) checkKind(cell string, kind xlsx.Kind) *cellError {
	switch {
	case kind == xlsx.Uncalculated:
		return &cellError{code: CodeUncalculated, field: c.field, err: errors.New("the formula has no value that a spreadsheet calculated after the last change; open the workbook in a spreadsheet, and save it")}
	case kind == xlsx.Date && c.typ != TypeString:
		return &cellError{code: CodeType, field: c.field, err: fmt.Errorf("%s is stored as a date, and the column is of type %s", clip(cell), c.typ)}
	}
	return nil
}
