package importer

import (
	"encoding/csv"
	"io"
	"regexp"

	"orderpost/internal/order"
)

// number is a cell that begins like a formula and is none.
var number = regexp.MustCompile(`^[+-]?[0-9]+([.,][0-9]+)*$`)

// neutral keeps a spreadsheet from running a cell as a formula: what begins
// like one is prefixed with an apostrophe. Plain numbers stay. A cell that
// begins with such an apostrophe gets another one, so that [plain] undoes it.
func neutral(cell string) string {
	if cell == "" {
		return cell
	}
	switch cell[0] {
	case '\'':
		if neutral(cell[1:]) != cell[1:] {
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

// plain gives the cell that neutral has made this one of, or the cell itself.
func plain(cell string) string {
	if len(cell) > 1 && cell[0] == '\'' && neutral(cell[1:]) == cell {
		return cell[1:]
	}
	return cell
}

// newSheet writes CSV as the checked file's own: delimiter, line ends and byte
// order mark. It is UTF-8 always; for a file in another encoding it gets the
// mark, without which spreadsheets would not read it as UTF-8.
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

// original gives the positions and the header of the columns that are the
// file's own, and not ones that an earlier rejects or results file added.
func (f *File) original() (columns []int, header []string) {
	if f.head.format == FormatNDJSON {
		return nil, []string{order.FieldOrderNo}
	}
	for i, c := range f.head.layout.columns {
		if !c.skip {
			columns, header = append(columns, i), append(header, c.header)
		}
	}
	return columns, header
}
