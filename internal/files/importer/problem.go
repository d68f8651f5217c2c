package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"orderpost/internal/files/xlsx"
	"orderpost/internal/order"
	"orderpost/internal/order/schema"
)

// Code names what is wrong with a row, in the rejects file. A row that the signing
// rules refuse has a code of [order.Code] instead.
type Code string

// The codes of an import's own checks.
const (
	// CodeCells: more or fewer cells than the header has columns.
	CodeCells Code = "cell_count"
	// CodeQuote: a misplaced quote. Rows after it cannot be told apart.
	CodeQuote Code = "quote"
	// CodeType: a cell that does not have its column's type.
	CodeType Code = "wrong_type"
	// CodeDuplicate: an order_no that an earlier row of the file has, too.
	CodeDuplicate Code = "duplicate_order_no"
	// CodePadded: an order_no with spaces around it.
	CodePadded Code = "padded"
	// CodeExcel: an order_no that a program turned into a number.
	CodeExcel Code = "excel_number"
	// CodeShown answers CodeExcel for a column of a workbook: its numbers are sent with the zeros that the sheet shows.
	CodeShown Code = "as_shown"
	// CodeError: a spreadsheet's error value.
	CodeError Code = "excel_error"
	// CodeRounded: a long number with zeros after its 15th digit.
	CodeRounded Code = "excel_rounded"
	// CodeDate: an order_no that a spreadsheet turned into a date.
	CodeDate Code = "excel_date"
	// CodeInvisible: an order_no with invisible characters, or any cell with NUL.
	CodeInvisible Code = "invisible"
	// CodeApostrophe: an apostrophe that keeps a spreadsheet from running a formula.
	CodeApostrophe Code = "apostrophe"
	// CodeQuoted: quotes, or the =" of exports, that a program has put around a cell.
	CodeQuoted Code = "quoted"
	// CodeNoOrder: a row that is no order: the header again, a line that is drawn, totals, or
	// the word that programs write for a missing value.
	CodeNoOrder Code = "no_order"
	// CodeComma: a number with a decimal comma.
	CodeComma Code = "decimal_comma"
	// CodeThousands: a number with separators between its thousands.
	CodeThousands Code = "thousands"
	// CodeEdit: a corrected cell that does not hold what it held when it was corrected.
	CodeEdit Code = "edited"
	// CodeTime: a _not_before that is no time, has no zone, is over, or too far ahead.
	CodeTime Code = "bad_time"
	// CodeUncalculated: a formula in a workbook without a value that counts.
	CodeUncalculated Code = "not_calculated"
	// CodeSchema: an order that breaks the user's schema.
	CodeSchema Code = schema.Code
	// CodeEncoding: a cell that is not in the file's encoding.
	CodeEncoding Code = "encoding"
	// CodeTrailer: the record that ends the file is missing, not the last, there twice, or has no numbers.
	CodeTrailer Code = "trailer"
	// CodeHeader: the first row does not name the columns correctly.
	CodeHeader Code = "header"
)

// RowError is a mistake in a row. It names the cell and says what to do.
type RowError struct {
	File string
	// Sheet is the name of the sheet in a workbook, in which Line is a row.
	Sheet string
	// Line counts the lines of the file from 1, the header included. Column counts
	// the cells from 1; 0 = the whole row.
	Line, Column int
	// Name is the column's name.
	Name string
	// Value is the beginning of the cell, where a cell is meant. Check sets it.
	Value string
	Code  Code
	Err   error
	// Field is the JSON field of the column, in whose mapping a question is answered.
	Field string
	// Or is the code of the other answer to a question that has two.
	Or Code
	// Begins is the line in which the row begins, by which it can be left out; 0 = the error is about no row. Correctable
	// says that Value is all of the cell, which can be corrected ([Reading.Correct]). Check sets them.
	Begins      int
	Correctable bool
}

// Error returns "file:line:column: message", and in a workbook "file:sheet!cell: message".
func (e *RowError) Error() string {
	return place(e.File, e.Sheet, e.Line, e.Column) + ": " + e.Message()
}

// Place returns where the error is, without the file: line and column, or sheet and cell.
func (e *RowError) Place() string {
	return strings.TrimPrefix(place("", e.Sheet, e.Line, e.Column), ":")
}

// place names a row of a file, or a cell if column is not 0.
func place(file, sheet string, line, column int) string {
	switch {
	case sheet != "":
		return file + ":" + xlsx.Place(sheet, line, column)
	case column > 0:
		return fmt.Sprintf("%s:%d:%d", file, line, column)
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// place names a row of the table.
func (t *table) place(line int) string { return place(t.file, t.sheet, line, 0) }

// Message returns the error without its position.
func (e *RowError) Message() string {
	if e.Name != "" && !strings.HasPrefix(e.Err.Error(), e.Name+":") {
		return "column " + clip(e.Name) + ": " + e.Err.Error()
	}
	return e.Err.Error()
}

// Plain is Message without advice about flags.
func (e *RowError) Plain() string {
	return strings.Replace(e.Message(), e.Err.Error(), Plain(e.Err), 1)
}

// quote sets Value, Begins and Correctable.
func (e *RowError) quote(row *Row, format Format) *RowError {
	if e.Begins = row.Line; e.Column > 0 && e.Column <= len(row.Cells) && e.Code != CodeQuote {
		var whole bool
		e.Value, whole = shown(row.Cells[e.Column-1], maxQuoted)
		e.Correctable = whole && format.hasColumns() && e.Code != CodeCells
	}
	return e
}

// shown clips a cell to most bytes, and says whether it is whole, and text that a field of a form can have.
func shown(cell string, most int) (clipped string, whole bool) {
	clipped = order.Clip(cell, most)
	return clipped, clipped == cell && utf8.ValidString(cell) && !strings.ContainsAny(cell, "\x00\r\n")
}

// Unwrap returns the reason.
func (e *RowError) Unwrap() error { return e.Err }

// IsQuestion reports whether a person may accept the row as it is, by Field and Code.
func (e *RowError) IsQuestion() bool { return slices.Contains(Questions(), e.Code) }

// refused returns the code and the path of an error of the signing rules.
func refused(err error) (Code, string) {
	var rule *order.Error
	if errors.As(err, &rule) {
		return Code(rule.Code), rule.Path
	}
	if broken, ok := errors.AsType[*schema.Violation](err); ok {
		return CodeSchema, broken.Path
	}
	return CodeType, ""
}

// maxQuoted is the most bytes of a cell that a message quotes.
const maxQuoted = 80

// clip shortens a cell for a message.
func clip(cell string) string { return order.Clip(cell, maxQuoted) }

// advised is an error with advice for the command line.
type advised struct {
	err   error
	flags string
}

// advise adds advice about flags of enqueue to a message.
func advise(what, flags string) *advised { return &advised{errors.New(what), flags} }

// Error returns the error with the advice.
func (e *advised) Error() string { return e.err.Error() + e.flags }

// Unwrap returns the error without the advice.
func (e *advised) Unwrap() error { return e.err }

// Plain returns an error's message without advice about flags of enqueue. A page has fields
// for what they do.
func Plain(err error) string {
	a, ok := errors.AsType[*advised](err)
	if !ok {
		return err.Error()
	}
	return strings.Replace(err.Error(), a.Error(), Plain(a.err), 1)
}
