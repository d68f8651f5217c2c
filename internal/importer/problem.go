package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"orderpost/internal/order"
)

// Code names what is wrong with a row, as it stands in a rejects file. Beside
// these there are the codes of order.Code, for what the signing rules refuse.
type Code string

// The codes of an import's own checks.
const (
	// CodeCells: more or fewer cells than the header has columns.
	CodeCells Code = "cell_count"
	// CodeQuote: a quote where none may be; rows cannot be told apart behind it.
	CodeQuote Code = "quote"
	// CodeType: a cell that its column's type excludes.
	CodeType Code = "wrong_type"
	// CodeDuplicate: an order_no that an earlier row of the file has.
	CodeDuplicate Code = "duplicate_order_no"
	// CodePadded: an order_no with spaces around it.
	CodePadded Code = "padded"
	// CodeExcel: an order_no that a spreadsheet has turned into a number.
	CodeExcel Code = "excel_number"
	// CodeError: a spreadsheet's error value instead of a value.
	CodeError Code = "excel_error"
	// CodeRounded: a long number with zeros behind its 15th digit.
	CodeRounded Code = "excel_rounded"
	// CodeDate: an order_no that a spreadsheet has made a date of.
	CodeDate Code = "excel_date"
	// CodeInvisible: an order_no with characters that nobody sees; NUL anywhere.
	CodeInvisible Code = "invisible"
	// CodeApostrophe: an apostrophe before what a spreadsheet would run.
	CodeApostrophe Code = "apostrophe"
	// CodeHeader: the first row does not name the columns as it must.
	CodeHeader Code = "header"
)

// RowError says which cell of which file is wrong, and what to do about it.
type RowError struct {
	File string
	// Line is the line of the file, counted from 1 with the header; Column the
	// position in the row counted from 1, 0 where the whole row is meant.
	Line, Column int
	// Name is the column's name.
	Name string
	Code Code
	Err  error
}

// Error is file:line:column: name: what.
func (e *RowError) Error() string {
	where := fmt.Sprintf("%s:%d", e.File, e.Line)
	if e.Column > 0 {
		where += fmt.Sprintf(":%d", e.Column)
	}
	return where + ": " + e.Message()
}

// Message is the error without its place.
func (e *RowError) Message() string {
	if e.Name != "" && !strings.HasPrefix(e.Err.Error(), e.Name+":") {
		return "column " + e.Name + ": " + e.Err.Error()
	}
	return e.Err.Error()
}

// Unwrap gives the reason.
func (e *RowError) Unwrap() error { return e.Err }

// question says whether the row could be sent, and a person has to say so.
func (e *RowError) question() bool { return slices.Contains(Questions(), e.Code) }

// refused turns what the signing rules say about a body into a code.
func refused(err error) (Code, string) {
	var rule *order.Error
	if errors.As(err, &rule) {
		return Code(rule.Code), rule.Path
	}
	return CodeType, ""
}

// maxQuoted is the most bytes of a cell that a message quotes.
const maxQuoted = 80

// clip shortens a cell for a message.
func clip(cell string) string { return order.Clip(cell, maxQuoted) }
