package importer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// cellError is about one cell of a row.
type cellError struct {
	column int // counted from 1
	code   Code
	err    error
}

func (e *cellError) Error() string { return e.err.Error() }

// appendBody writes a row as a JSON object, its fields in the order of the
// columns. made is the order number from the template.
func (l *layout) appendBody(dst []byte, cells []string, made string) ([]byte, *cellError) {
	dst = append(dst, '{')
	dst, _, err := l.appendMembers(dst, l.root.members, cells, made)
	return append(dst, '}'), err
}

func (l *layout) appendMembers(dst []byte, members []*node, cells []string, made string) ([]byte, int, *cellError) {
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
			dst, inside, err = l.appendMembers(append(dst, '{'), n.members, cells, made)
			dst = append(dst, '}')
			there = inside > 0
		case n.constant != nil:
			dst = append(dst, n.constant...)
		case n.column == madeOrderNo:
			dst, _ = jsontext.AppendQuote(dst, made)
		default:
			dst, there, err = l.appendColumn(dst, n.column, cells[n.column])
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

// appendColumn writes one cell; there is false where an empty one is omitted.
func (l *layout) appendColumn(dst []byte, i int, cell string) (out []byte, there bool, bad *cellError) {
	c := l.columns[i]
	if i == l.orderNo {
		if code, err := checkOrderNo(cell); err != nil {
			return dst, false, &cellError{i + 1, code, err}
		}
	} else if cell == "" {
		switch l.empty {
		case EmptyOmit:
			return dst, false, nil
		case EmptyNull:
			return append(dst, "null"...), true, nil
		}
	}
	out, err := appendCell(dst, cell, c.typ)
	if err != nil {
		return dst, false, &cellError{i + 1, CodeType, err}
	}
	return out, true, nil
}

// appendCell writes a cell as JSON. Nothing is guessed and nothing trimmed.
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
			return dst, fmt.Errorf("%q is not valid UTF-8; save the file as UTF-8, or name its encoding (--encoding)", clip(cell))
		}
		return out, nil
	}
}

func wrongCell(cell, want string) error {
	if cell == "" {
		return fmt.Errorf("%q is not %s; --empty omit leaves empty cells out", cell, want)
	}
	return fmt.Errorf("%q is not %s", clip(cell), want)
}

// mangled is how a spreadsheet shows a long number that it has rounded.
var mangled = regexp.MustCompile(`^[+-]?[0-9]+([.,][0-9]+)?[eE]\+[0-9]+$`)

// checkOrderNo refuses what a spreadsheet has made of an order number. The
// rest is for the signing rules.
func checkOrderNo(cell string) (Code, error) {
	first, _ := utf8.DecodeRuneInString(cell)
	last, _ := utf8.DecodeLastRuneInString(cell)
	switch {
	case cell == "":
		return "", nil
	case isPadding(first), isPadding(last):
		return CodePadded, fmt.Errorf("%q has spaces or invisible characters around it; remove them, they would become a part of the number", clip(cell))
	case (first == '+' || first == '-' || '0' <= first && first <= '9') && mangled.MatchString(cell):
		return CodeExcel, fmt.Errorf("%q is a number that a spreadsheet has rounded, its last digits are lost; format the column as text and export it again", clip(cell))
	}
	return "", nil
}

// isPadding: spaces of any kind, no-break and zero-width ones too.
func isPadding(r rune) bool {
	return unicode.IsSpace(r) || r == '\u200b' || r == '\u2060' || r == '\ufeff'
}
