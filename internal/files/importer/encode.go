package importer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"orderpost/internal/files/xlsx"
)

// cellError is about one cell of a row.
type cellError struct {
	column int // counted from 1
	code   Code
	field  string
	or     Code // the other answer to a question that has two
	err    error
	// partial says that the body is not complete: the row has another mistake, too.
	partial bool
}

func (e *cellError) Error() string { return e.err.Error() }

// appendBody appends a row as a JSON object with its fields in the order of the
// columns. kinds says what the cells of a workbook are. made is the order number from the template. The body is complete even if
// the error is one of [Questions], unless that is partial.
func (l *layout) appendBody(dst []byte, cells []string, kinds []xlsx.Kind, made string) ([]byte, *cellError) {
	dst = append(dst, '{')
	dst, _, err := l.appendMembers(dst, l.root.members, cells, kinds, made)
	switch {
	case err == nil:
		err = l.questions(cells, kinds)
	case err.code == CodeType: // the cells of a row that is no order seldom have their columns' types
		if no := l.noOrder(cells); no != nil {
			no.partial, err = true, no
		}
	}
	return append(dst, '}'), err
}

// noOrder returns the question about a row that is no order: the header again, a line that is
// drawn, or totals. Without a column order_no, the whole row tells.
func (l *layout) noOrder(cells []string) *cellError {
	if l.orderNo >= 0 {
		if cell := cells[l.orderNo]; l.isHeader(l.orderNo, cell) || noOrder(cell) != "" {
			return l.ask(l.orderNo, cell, CodeNoOrder)
		}
		return nil
	}
	first, header, drawn := -1, true, true
	for i, cell := range cells {
		if l.columns[i].skip || strings.TrimSpace(cell) == "" {
			continue
		}
		if first < 0 {
			first = i
		}
		header = header && l.isHeader(i, cell)
		drawn = drawn && strings.IndexFunc(cell, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) < 0
		if !header && !drawn {
			break
		}
	}
	if first >= 0 && (header || drawn || isTotal(cells[first])) {
		return l.ask(first, cells[first], CodeNoOrder)
	}
	return nil
}

// isHeader reports whether a cell is the name of its column.
func (l *layout) isHeader(i int, cell string) bool {
	c := &l.columns[i]
	return len(cell) >= len(c.header) && strings.EqualFold(strings.TrimSpace(cell), c.header) || i == l.orderNo && strings.EqualFold(cell, c.field)
}

// ask returns a question about a cell, or nil if there is none, or the mapping answers it.
func (l *layout) ask(i int, cell string, code Code) *cellError {
	c := &l.columns[i]
	if code == "" || c.accept.has(code) {
		return nil
	}
	return &cellError{column: i + 1, code: code, field: c.field, err: questionError(c.field, cell, code)}
}

// asks reports whether an import asks about a cell, or refuses it, for what is stored in it.
func (l *layout) asks(i int, kind xlsx.Kind) bool {
	c := &l.columns[i]
	code := c.questionOfKind(kind, i == l.orderNo)
	return kind == xlsx.Uncalculated || code != "" && !c.accept.has(code)
}

// questions returns a question about the first suspicious cell of a row.
func (l *layout) questions(cells []string, kinds []xlsx.Kind) *cellError {
	if l.orderNo < 0 {
		if no := l.noOrder(cells); no != nil {
			return no
		}
	}
	for i := range l.columns {
		c := &l.columns[i]
		if c.skip || c.typ != TypeString && !c.hasNumbers() {
			continue
		}
		if kind := kindOf(kinds, i); kind != xlsx.Text && kind != xlsx.Empty {
			if code := c.questionOfKind(kind, i == l.orderNo); code != "" && !c.accept.has(code) {
				asked := &cellError{column: i + 1, code: code, field: c.field, err: questionOfCell(c.field, cells[i], kind, code)}
				if kind.ShowsZeros() && code == CodeExcel {
					asked.or = CodeShown
				}
				return asked
			}
			continue
		}
		var code Code
		switch {
		case i == l.orderNo:
			if code = questionOfOrderNo(cells[i]); code == "" && l.isHeader(i, cells[i]) {
				code = CodeNoOrder
			}
		case c.typ != TypeInt:
			code = question(cells[i])
		}
		if asked := l.ask(i, cells[i], code); asked != nil {
			return asked
		}
		if !c.hasNumbers() {
			continue
		}
		if bad := c.judge(cells[i], notation{}); bad != nil {
			bad.column = i + 1
			return bad
		}
	}
	return nil
}

func (l *layout) appendMembers(dst []byte, members []*node, cells []string, kinds []xlsx.Kind, made string) ([]byte, int, *cellError) {
	written := 0
	for _, n := range members {
		start := len(dst)
		if written > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, n.key...)
		there := true
		var err *cellError
		switch {
		case n.members != nil:
			var inside int
			dst, inside, err = l.appendMembers(append(dst, '{'), n.members, cells, kinds, made)
			dst = append(dst, '}')
			there = inside > 0
		case n.constant != nil:
			dst = append(dst, n.constant...)
		case n.column == madeOrderNo:
			dst, _ = jsontext.AppendQuote(dst, made)
		default:
			dst, there, err = l.appendColumn(dst, n.column, cells[n.column], kindOf(kinds, n.column))
		}
		if err != nil {
			return dst, written, err
		}
		if !there {
			dst = dst[:start]
			continue
		}
		written++
	}
	return dst, written, nil
}

// appendColumn appends a cell. there is false if an empty cell is omitted.
func (l *layout) appendColumn(dst []byte, i int, cell string, kind xlsx.Kind) (out []byte, there bool, bad *cellError) {
	c := &l.columns[i]
	if bad = c.checkKind(cell, kind); bad != nil {
		bad.column = i + 1
		return dst, false, bad
	}
	if i == l.orderNo {
		if isPadded(cell) {
			bad = padded(cell)
			bad.column = i + 1
			return dst, false, bad
		}
	} else if cell == "" {
		switch l.empty {
		case EmptyOmit:
			return dst, false, nil
		case EmptyNull:
			return append(dst, "null"...), true, nil
		}
	}
	var err error
	if c.hasNumbers() && !kind.IsNumber() { // a number of a workbook has no decimal sign to ask about
		cell, err = c.number(cell)
	}
	if err == nil {
		out, err = appendCell(dst, cell, c.typ)
	}
	if err != nil {
		bad := &cellError{column: i + 1, code: CodeType, field: c.field, err: err}
		if !utf8.ValidString(cell) && !hasHalfCharacter(cell) {
			bad.code, bad.err = CodeEncoding, notUTF8(cell)
		}
		return dst, false, bad
	}
	return out, true, nil
}

// appendCell appends a cell as JSON. It guesses nothing and trims nothing.
func appendCell(dst []byte, cell string, t Type) ([]byte, error) {
	switch t {
	case TypeInt:
		digits := strings.TrimPrefix(cell, "-")
		if digits == "" || strings.Trim(digits, "0123456789") != "" || len(digits) > 1 && digits[0] == '0' {
			return dst, wrongCell(cell, "a whole number such as 30")
		}
		return append(dst, cell...), nil
	case TypeNumber:
		if v := jsontext.Value(cell); v.Kind() != '0' || !v.IsValid() || strings.TrimSpace(cell) != cell {
			return dst, wrongCell(cell, "a number such as 12.5 (with a point, without separators)")
		}
		return append(dst, cell...), nil
	case TypeBool:
		switch cell {
		case "true", "TRUE", "True":
			return append(dst, "true"...), nil
		case "false", "FALSE", "False":
			return append(dst, "false"...), nil
		}
		return dst, wrongCell(cell, "true or false")
	case TypeJSON:
		if !jsontext.Value(cell).IsValid(jsontext.AllowDuplicateNames(true)) {
			return dst, wrongCell(cell, "one JSON value")
		}
		return append(dst, cell...), nil
	default:
		out, err := jsontext.AppendQuote(dst, cell)
		if err != nil {
			if hasHalfCharacter(cell) {
				return dst, fmt.Errorf("%q has half a character (a lone surrogate of UTF-16): whatever wrote the file cut the text; correct the cell", clip(cell))
			}
			return dst, notUTF8(cell)
		}
		return out, nil
	}
}

// hasHalfCharacter reports whether a cell contains the bytes that [utf16Decoder]
// writes for a lone surrogate.
func hasHalfCharacter(cell string) bool {
	at := strings.IndexByte(cell, 0xed)
	for at >= 0 && (at+1 == len(cell) || cell[at+1] < 0xa0) {
		next := strings.IndexByte(cell[at+1:], 0xed)
		if next < 0 {
			return false
		}
		at += 1 + next
	}
	return at >= 0
}

func wrongCell(cell, want string) error {
	if cell == "" {
		return advise(fmt.Sprintf("%q is not %s", cell, want), "; --empty omit leaves empty cells out")
	}
	return fmt.Errorf("%q is not %s", clip(cell), want)
}
