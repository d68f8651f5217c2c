package importer

import (
	"encoding/csv"
	"io"
	"regexp"

	"orderpost/internal/order"
)

// number matches a cell that begins like a formula but is a number.
var number = regexp.MustCompile(`^[+-]?[0-9]+([.,][0-9]+)*$`)

// EscapeFormula keeps a spreadsheet from running a cell as a formula. It prefixes a
// cell that begins like one with an apostrophe. Plain numbers stay unchanged. A cell
// that already begins with such an apostrophe gets another one, because
// [unescapeFormula] removes one.
func EscapeFormula(cell string) string {
	if cell == "" {
		return cell
	}
	switch cell[0] {
	case '\'':
		if EscapeFormula(cell[1:]) != cell[1:] {
			return "'" + cell
		}
	case '=', '@', '\t', '\r', '\n':
		return "'" + cell
	case '+', '-':
		if !number.MatchString(cell) {
			return "'" + cell
		}
	}
	return cell
}

// unescapeFormula undoes EscapeFormula.
func unescapeFormula(cell string) string {
	if len(cell) > 1 && cell[0] == '\'' && EscapeFormula(cell[1:]) == cell {
		return cell[1:]
	}
	return cell
}

// newSheet returns a CSV writer with the delimiter, the line ends and the byte order
// mark of the checked file. It always writes UTF-8. For a file in another encoding it
// adds the mark, because spreadsheets need it to read UTF-8.
func (f *File) newSheet(w io.Writer) (*csv.Writer, error) {
	out, t := csv.NewWriter(w), f.head
	if t.format == FormatCSV {
		out.Comma, out.UseCRLF = t.dialect.comma, t.dialect.crlf
	}
	if encoding, _ := t.text.encoding(); t.text.bom || encoding != UTF8 {
		if _, err := w.Write(utf8BOM); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// original returns the positions and names of the file's original columns, without
// those that a rejects or results file added.
func (f *File) original() (columns []int, header []string) {
	if f.head.format == FormatNDJSON {
		return nil, []string{order.FieldOrderNo}
	}
	for i, c := range f.head.layout.columns {
		if !c.skip || c.header == notBeforeColumn {
			columns, header = append(columns, i), append(header, c.header)
		}
	}
	return columns, header
}
