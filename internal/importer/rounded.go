package importer

import (
	"math"
	"strings"

	"orderpost/internal/order"
)

// spreadsheetDigits is the number of digits that a spreadsheet keeps.
const spreadsheetDigits = 15

// rounding counts the long whole numbers of one column. A spreadsheet writes zeros
// after the 15th digit of a number, but some numbers end like this by chance. Only
// the statistics of the whole column can tell.
type rounding struct {
	round  int     // numbers that look rounded
	chance float64 // expected count by chance
}

func (r *rounding) add(cell string) {
	if tail := lostDigits(cell); tail > 0 {
		r.chance += math.Pow(10, -float64(tail))
		if looksRounded(cell) {
			r.round++
		}
	}
}

// suspicious reports whether more numbers look rounded than chance explains.
func (r *rounding) suspicious() bool {
	return float64(r.round) > 2*r.chance+3*math.Sqrt(r.chance)
}

// lostDigits returns how many digits of a whole number a spreadsheet would lose. It
// returns 0 for a leading zero, which shows that the cell was text.
func lostDigits(cell string) int {
	if len(cell) <= spreadsheetDigits || len(cell) > 64 || cell[0] < '1' || cell[0] > '9' || strings.Trim(cell, "0123456789") != "" {
		return 0
	}
	return len(cell) - spreadsheetDigits
}

// looksRounded reports whether the digits after the 15th are zeros. Many zeros before
// the 15th digit mean that the number is just round.
func looksRounded(cell string) bool {
	tail := lostDigits(cell)
	zeros := len(cell) - len(strings.TrimRight(cell, "0"))
	return tail > 0 && zeros >= tail && zeros <= tail+2
}

// countRounded counts the row's numbers that may be rounded.
func (f *File) countRounded(row *Row, counts []rounding) []rounding {
	t := f.head
	if t.format == FormatNDJSON {
		if counts == nil {
			counts = make([]rounding, 1)
		}
		if !t.accept.has(CodeRounded) {
			counts[0].add(row.OrderNo)
		}
		return counts
	}
	if counts == nil {
		counts = make([]rounding, len(t.layout.columns))
	}
	for _, i := range t.layout.numbers {
		if cell := row.Cells[i]; len(cell) > spreadsheetDigits && !kindOf(row.kinds, i).IsNumber() {
			counts[i].add(cell)
		}
	}
	return counts
}

// judgeRounded decides on the columns after all rows were counted. It reports whether
// any column is suspicious.
func (f *File) judgeRounded(counts []rounding) bool {
	f.rounded = nil
	for i := range counts {
		if counts[i].suspicious() {
			f.rounded = append(f.rounded, i)
		}
	}
	return f.rounded != nil
}

// roundedError returns a question about a number that looks rounded, or nil.
func (f *File) roundedError(row *Row) *RowError {
	for _, i := range f.rounded {
		cell, field := row.OrderNo, order.FieldOrderNo
		if f.head.format.hasColumns() {
			if kindOf(row.kinds, i).IsNumber() { // the row was asked about already
				continue
			}
			cell, field = row.Cells[i], f.head.layout.columns[i].field
		}
		if !looksRounded(cell) {
			continue
		}
		bad := &cellError{column: i + 1, code: CodeRounded, field: field, err: questionError(field, cell, CodeRounded)}
		return f.head.cellError(record{line: row.Line, cells: row.Cells}, bad)
	}
	return nil
}
