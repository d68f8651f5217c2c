package importer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"orderpost/internal/order"
)

// separators are what people put between thousands, beside the comma and the point.
const separators = " \u00a0\u2009\u202f'’"

// reading is a cell of a number as it reads with one decimal sign.
type reading struct {
	// text is the number in JSON; "" = the cell is no number.
	text string
	// grouped says that the cell has separators between thousands.
	grouped bool
}

func (r reading) ok() bool { return r.text != "" }

// readNumber reads a cell whose decimal sign is point or comma. It moves text only:
// no digit is lost.
func readNumber(cell string, comma bool) (r reading) {
	sign, between := ".", ","
	if comma {
		sign, between = ",", "."
	}
	whole, fraction := cell, ""
	if at := strings.IndexAny(cell, sign+"eE"); at >= 0 {
		whole, fraction = cell[:at], cell[at:]
	}
	if at := strings.IndexAny(whole, between+separators); at >= 0 {
		first, _ := utf8.DecodeRuneInString(whole[at:])
		groups := strings.Split(strings.TrimPrefix(whole, "-"), string(first))
		if groups[0] == "" || len(groups[0]) > 3 || strings.HasPrefix(groups[0], "0") || slices.ContainsFunc(groups[1:], func(g string) bool { return len(g) != 3 }) {
			return r
		}
		whole, r.grouped = strings.ReplaceAll(whole, string(first), ""), true
	}
	if comma && strings.HasPrefix(fraction, ",") {
		fraction = "." + fraction[1:]
	}
	text := cell
	if r.grouped || comma {
		text = whole + fraction
	}
	if isNumber(text) {
		r.text = text
	}
	return r
}

// isNumber reports whether a text is a number in JSON.
func isNumber(text string) bool {
	v := jsontext.Value(text)
	return v.Kind() == '0' && v.IsValid() && strings.TrimSpace(text) == text
}

func isWhole(text string) bool { return !strings.ContainsAny(text, ".eE") }

// readBoth reads a cell with a point and with a comma as the decimal sign. In a column
// of whole numbers, only whole numbers count if one of the readings is one.
func (c *column) readBoth(cell string) (point, comma reading) {
	point, comma = readNumber(cell, false), readNumber(cell, true)
	if c.typ == TypeInt && point.ok() && comma.ok() && point.text != comma.text {
		if !isWhole(point.text) {
			point = reading{}
		} else if !isWhole(comma.text) {
			comma = reading{}
		}
	}
	return point, comma
}

// hasNumbers reports whether the column's cells are numbers.
func (c *column) hasNumbers() bool {
	return !c.skip && (c.typ == TypeNumber || c.typ == TypeInt)
}

// comma reports whether the decimal sign of the column is the comma.
func (c *column) comma() bool { return c.accept.has(CodeComma) }

// isDigits reports whether a cell reads the same with every decimal sign.
func isDigits(cell string) bool { return strings.Trim(cell, "-0123456789") == "" }

// number returns a cell of the column as JSON. It takes the numbers that questions asks
// about, too.
func (c *column) number(cell string) (text string, err error) {
	if isDigits(cell) || c.typ == TypeNumber && !c.comma() && isNumber(cell) {
		return cell, nil
	}
	point, comma := c.readBoth(cell)
	switch {
	case c.comma() && !comma.ok():
		return "", wrongCell(cell, "a number with a decimal comma such as 12,5")
	case c.comma():
		return comma.text, nil
	case point.ok() && (c.typ == TypeNumber || isWhole(point.text)):
		return point.text, nil
	case comma.ok() && (c.typ == TypeNumber || isWhole(comma.text)):
		return comma.text, nil
	}
	return cell, nil // appendCell says what is wrong with it
}

// notation is what the cells of a column of numbers prove about the way in which its
// numbers are written. 1,07 and 1.234.567 are numbers only with a decimal comma, 1.07 and
// 1,234,567 only with a decimal point, and 1,234 is one with either.
type notation struct {
	point, comma witness
}

// witness is a cell that proves a decimal sign.
type witness struct {
	line int    // 0 = there is none
	unit string // Format.Unit
	cell string
}

func (w witness) there() bool { return w.line > 0 }

// add takes a cell into account.
func (n *notation) add(c *column, cell string, line int, unit string) {
	if n.point.there() && n.comma.there() || isDigits(cell) {
		return
	}
	point, comma := c.readBoth(cell)
	switch {
	case point.ok() == comma.ok():
	case point.ok() && !n.point.there():
		n.point = witness{line, unit, clip(cell)}
	case comma.ok() && !n.comma.there():
		n.comma = witness{line, unit, clip(cell)}
	}
}

// judge returns a question or an error about the way in which a number is written, or
// nil. The cell was read by number. n is what is known of the column; the zero value
// before its cells were read.
func (c *column) judge(cell string, n notation) *cellError {
	if isDigits(cell) || c.typ == TypeNumber && !c.comma() && !n.comma.there() && isNumber(cell) {
		return nil
	}
	point, comma := c.readBoth(cell)
	own, other, same, contrary := point, comma, n.point, n.comma
	if c.comma() || c.typ == TypeInt && !point.ok() {
		own, other, same, contrary = comma, point, n.comma, n.point
	}
	unclear := own.ok() && other.ok() && own.text != other.text
	switch {
	case c.typ == TypeInt && own.ok() && !other.ok() && contrary.there():
		return c.refused(cell, contrary)
	case own.ok() && !(unclear && contrary.there()):
		if !own.grouped || c.accept.has(CodeThousands) {
			return nil
		}
		if unclear && !c.comma() && !same.there() {
			return c.ask(cell, own, CodeThousands, other)
		}
		return c.ask(cell, own, CodeThousands, reading{})
	case !other.ok(): // it is no number at all
		return nil
	case c.comma():
		return c.refused(cell, contrary)
	case same.there() && own.ok():
		return c.refused(cell, contrary)
	case same.there():
		return c.refused(cell, same)
	default:
		return c.ask(cell, other, CodeComma, reading{})
	}
}

// ask returns a question. If or is a reading, the answer may also be that the comma is
// the decimal sign.
func (c *column) ask(cell string, as reading, code Code, or reading) *cellError {
	asked, what, accept := &cellError{code: code, field: c.field}, fmt.Sprintf("%q is %s if ", clip(cell), as.text), acceptFlag(c.field, code)
	switch {
	case or.ok():
		asked.or = CodeComma
		asked.err = advise(what+"it has a thousands separator, and "+or.text+" if it has a decimal comma; say which", ": "+accept+", or "+acceptFlag(c.field, CodeComma))
	case code == CodeComma:
		asked.err = advise(what+"the column's decimal sign is the comma, and no number of the column contradicts that", ". If it is: "+accept)
	default:
		asked.err = advise(what+"what stands between its digits separates thousands", ". If it does: "+accept)
	}
	return asked
}

// refused returns the error of a number that may be two, because the column has both
// decimal signs.
func (c *column) refused(cell string, beside witness) *cellError {
	return &cellError{code: CodeType, field: c.field, err: fmt.Errorf("%q is unclear beside %q in %s %d, which uses point and comma the other way; write all numbers of the column in one way",
		clip(cell), beside.cell, beside.unit, beside.line)}
}

// asksOfColumn reports whether only the whole column tells what to say about the row.
func (e *RowError) asksOfColumn() bool { return e.Code == CodeComma || e.Code == CodeThousands }

// countNotation takes the row's numbers into account.
func (f *File) countNotation(row *Row) {
	t := f.head
	if !t.format.hasColumns() || len(row.Cells) != len(t.layout.columns) {
		return
	}
	if f.notations == nil {
		f.notations = make([]notation, len(t.layout.columns))
	}
	for i := range t.layout.columns {
		if c := &t.layout.columns[i]; c.hasNumbers() && !kindOf(row.kinds, i).IsNumber() {
			f.notations[i].add(c, row.Cells[i], row.Line, t.format.Unit())
		}
	}
}

// judgeNotations reports whether some columns have numbers that more than the row
// decides on. It forgets the others.
func (f *File) judgeNotations(asked bool) bool {
	for i, n := range f.notations {
		c := &f.head.layout.columns[i]
		asked = asked || c.comma() && n.point.there() || !c.comma() && n.comma.there()
	}
	if !asked {
		f.notations = nil
	}
	return asked
}

// notationError returns what is wrong with the way in which a number of the row is
// written, or nil.
func (f *File) notationError(row *Row) *RowError {
	for i, n := range f.notations {
		c := &f.head.layout.columns[i]
		if !c.hasNumbers() || kindOf(row.kinds, i).IsNumber() {
			continue
		}
		if bad := c.judge(row.Cells[i], n); bad != nil {
			bad.column = i + 1
			return f.head.cellError(record{line: row.Line, cells: row.Cells}, bad)
		}
	}
	return nil
}

// checkAccept refuses an answer about numbers for a column that has none: its cells would
// be sent as they are.
func (c *column) checkAccept() error {
	lacks := ""
	switch {
	case c.accept.has(CodeComma) && c.typ != TypeNumber:
		lacks = "decimal comma"
	case c.accept.has(CodeThousands) && !c.hasNumbers():
		lacks = "thousands"
	default:
		return nil
	}
	flag := nameFlag("--type", c.field, string(TypeNumber))
	if flag != "" {
		flag = " (" + flag + ")"
	}
	return advise(fmt.Sprintf("accept %s: a column of type %s has no %s; make it a number", clip(c.field), c.typ, lacks), flag)
}

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
