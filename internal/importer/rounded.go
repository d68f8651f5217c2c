package importer

import (
	"math"
	"strings"

	"orderpost/internal/order"
)

// kept is how many digits a spreadsheet keeps of a number.
const kept = 15

// rounding counts the long whole numbers of one column. One that ends in zeros
// behind its 15th digit may be what a spreadsheet has left of it, or end so by
// chance: among many, some do. So only the whole column can tell.
type rounding struct {
	round  int     // numbers that look rounded
	chance float64 // how many of all would look so by chance
}

func (r *rounding) add(cell string) {
	if tail := longTail(cell); tail > 0 {
		r.chance += math.Pow(10, -float64(tail))
		if looksRounded(cell) {
			r.round++
		}
	}
}

// suspicious says whether more numbers look rounded than chance explains.
func (r *rounding) suspicious() bool {
	return float64(r.round) > 2*r.chance+3*math.Sqrt(r.chance)
}

// longTail is the number of a whole number's digits that a spreadsheet would
// lose. A leading zero shows that the cell was text.
func longTail(cell string) int {
	if len(cell) <= kept || len(cell) > 64 || cell[0] < '1' || cell[0] > '9' || strings.Trim(cell, "0123456789") != "" {
		return 0
	}
	return len(cell) - kept
}

// looksRounded: the digits behind the 15th are zeros, and not many before it,
// as in a number that is just round.
func looksRounded(cell string) bool {
	tail := longTail(cell)
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
		if cell := row.Cells[i]; len(cell) > kept {
			counts[i].add(cell)
		}
	}
	return counts
}

// judgeRounded decides on the columns, once all rows were counted, and returns
// whether any row is to be asked about.
func (f *File) judgeRounded(counts []rounding) bool {
	f.rounded = nil
	for i := range counts {
		if counts[i].suspicious() {
			f.rounded = append(f.rounded, i)
		}
	}
	return f.rounded != nil
}

// roundedError asks about a row with a number that looks rounded.
func (f *File) roundedError(row *Row) *RowError {
	for _, i := range f.rounded {
		cell, field := row.OrderNo, order.FieldOrderNo
		if f.head.format == FormatCSV {
			cell, field = row.Cells[i], f.head.layout.columns[i].field
		}
		if !looksRounded(cell) {
			continue
		}
		bad := &cellError{i + 1, CodeRounded, field, ask(field, cell, CodeRounded)}
		return f.head.cellError(record{line: row.Line, cells: row.Cells}, bad)
	}
	return nil
}
