package importer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"orderpost/internal/files/xlsx"
	"orderpost/internal/order"
)

// number matches a cell that begins like a formula but is a number.
var number = regexp.MustCompile(`^[+-]?[0-9]+([.,][0-9]+)*$`)

// halfWidth replaces a full-width sign at the beginning of a cell. East Asian
// spreadsheets take it for the ASCII one.
func halfWidth(cell string) string {
	for _, sign := range [...][2]string{{"\uff1d", "="}, {"\uff0b", "+"}, {"\uff0d", "-"}, {"\uff20", "@"}} {
		if rest, ok := strings.CutPrefix(cell, sign[0]); ok {
			return sign[1] + rest
		}
	}
	return cell
}

// fieldEnds are what a spreadsheet may split a line at, whatever separates the cells of the
// file: Excel takes the one of the country, and a file quotes none but its own.
const fieldEnds = ",;|\t\r\n"

// EscapeFormula keeps a spreadsheet from running a cell, or what stands behind a separator in
// it, as a formula. It prefixes what begins like one with an apostrophe. Plain numbers stay
// unchanged. What already begins with such an apostrophe gets another one, because
// [unescapeFormula] removes one.
func EscapeFormula(cell string) string { return behindSeparators(escapeStart(cell), escapeStart) }

// unescapeFormula undoes EscapeFormula.
func unescapeFormula(cell string) string {
	return unescapeStart(behindSeparators(cell, unescapeStart))
}

// behindSeparators calls change for what stands behind each separator of a cell, up to the next
// one and without the quotes before it.
func behindSeparators(cell string, change func(string) string) string {
	at := strings.IndexAny(cell, fieldEnds)
	if at < 0 {
		return cell
	}
	var b strings.Builder
	for ; at >= 0; at = strings.IndexAny(cell, fieldEnds) {
		for at++; at < len(cell) && cell[at] == '"'; at++ {
		}
		b.WriteString(cell[:at])
		cell = cell[at:]
		end := strings.IndexAny(cell, fieldEnds)
		if end < 0 {
			end = len(cell)
		}
		b.WriteString(change(cell[:end]))
		cell = cell[end:]
	}
	return b.String() + cell
}

// escapeStart escapes a formula at the start of a text.
func escapeStart(cell string) string {
	if cell == "" {
		return cell
	}
	switch cell[0] {
	case '\'':
		if escapeStart(cell[1:]) != cell[1:] {
			return "'" + cell
		}
	case '=', '@', '\t', '\r', '\n':
		return "'" + cell
	case '+', '-':
		if !number.MatchString(cell) {
			return "'" + cell
		}
	case 0xef: // the first byte of full-width signs
		if halfWidth(cell) != cell {
			return "'" + cell
		}
	}
	return cell
}

// unescapeStart undoes escapeStart.
func unescapeStart(cell string) string {
	if len(cell) > 1 && cell[0] == '\'' && escapeStart(cell[1:]) == cell {
		return cell[1:]
	}
	return cell
}

// rowWriter writes the rows of results and rejects.
type rowWriter interface {
	// Write writes a row. kinds says what the first cells are; the others are text.
	Write(cells []string, kinds []xlsx.Kind, toned int, tone xlsx.Tone) error
	// Close writes the rest. It does not close what it writes to.
	Close() error
}

// newRows returns a writer for rows with this header, and the function that makes text
// harmless in it: a workbook knows what is text and what is a formula, CSV does not.
func (f *File) newRows(w io.Writer, as Format, header []string) (out rowWriter, escape func(string) string, err error) {
	if as == FormatXLSX {
		name := f.head.sheet
		if name == "" {
			name = "Orders"
		}
		out, err := xlsx.NewWriter(w, name, header)
		return out, func(cell string) string { return cell }, err
	}
	sheet, err := f.newSheet(w)
	if err == nil {
		err = sheet.Write(header, nil, -1, xlsx.Plain)
	}
	return sheet, EscapeFormula, err
}

// sheet writes CSV that keeps each cell byte for byte. csv.Writer with UseCRLF
// changes the line ends in the cells, too.
type sheet struct {
	w   *bufio.Writer
	csv *csv.Writer
	row bytes.Buffer
	end string
}

// newSheet returns a writer with the delimiter, the line ends and the byte order mark
// of the checked file. It always writes UTF-8. For a file in another encoding it adds
// the mark, because spreadsheets need it to read UTF-8.
func (f *File) newSheet(w io.Writer) (*sheet, error) {
	out, t := &sheet{w: bufio.NewWriterSize(w, 64<<10), end: "\n"}, f.head
	out.csv = csv.NewWriter(&out.row)
	if t.format == FormatCSV {
		out.csv.Comma, out.end = t.dialect.comma, t.end
	}
	if t.text.bom || t.text.encoding != UTF8 {
		if _, err := out.w.Write(utf8BOM); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Write writes a row.
func (s *sheet) Write(cells []string, _ []xlsx.Kind, _ int, _ xlsx.Tone) error {
	s.row.Reset()
	if err := s.csv.Write(cells); err != nil {
		return err
	}
	s.csv.Flush() // into memory
	s.row.Truncate(s.row.Len() - 1)
	s.row.WriteString(s.end)
	_, err := s.w.Write(s.row.Bytes())
	return err
}

// Close writes what is buffered.
func (s *sheet) Close() error { return s.w.Flush() }

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

// WarnFormula warns of a cell that a spreadsheet would run as a formula. The import
// sends it as the text that it is. Whoever opens it in a spreadsheet runs it.
const WarnFormula order.WarningCode = "formula"

// formula matches what a spreadsheet runs. Signs before numbers and words are usual in
// data; a call behind one is not.
var formula = regexp.MustCompile(`^(=.|[+\-@].*[A-Za-z](\(|\|'))`)

// formulas adds a warning for each formula among the cells. It does not change
// warnings, which rows share.
func (l *layout) formulas(cells []string, warnings []order.Warning) []order.Warning {
	shared := true
	for i := range l.columns {
		c := &l.columns[i]
		cell := cells[i]
		if cell == "" || c.skip || c.typ != TypeString || len(warnings) >= order.MaxWarnings {
			continue
		}
		switch cell[0] {
		case '=', '+', '-', '@', 0xef: // the last: a full-width sign begins with it
			if !formula.MatchString(halfWidth(cell)) {
				continue
			}
		default:
			continue
		}
		if shared {
			warnings, shared = slices.Clone(warnings), false
		}
		warnings = append(warnings, order.Warning{Code: WarnFormula, Path: c.field, Message: fmt.Sprintf("%q is a formula in a spreadsheet; it is sent as text", clip(cell))})
	}
	return warnings
}

// Meaning says what a kind of warning is, what it means, and what helps. flags says
// whether to name the flags of enqueue.
func (k *WarningKind) Meaning(format Format, flags bool) (what, advice string) {
	try := func(flag string) string {
		if !flags || !format.hasColumns() || flag == "" {
			return ""
		}
		return " (" + flag + ")"
	}
	rename, send := "", ""
	if k.column != nil {
		rename, send = k.column.renameFlags(), nameFlag("--type", k.column.field, string(TypeString))
	}
	what, cure := "", ""
	switch k.Code {
	case WarnFormula:
		return "cells that a spreadsheet would run as formulas", "They are sent as the text that they are; if nobody meant that, correct them where the file comes from."
	case order.WarnNull:
		what, cure = "fields that are null", "leave such fields out"+try("--empty omit")
	case order.WarnName:
		what, cure = "field names with other characters than a-z, 0-9 and _", "use other names"+try(rename)
	case order.WarnUnsorted:
		what, cure = "nested fields whose names are not in alphabetical order", "put them in that order"
	case order.WarnExponent:
		what, cure = "numbers with an exponent such as 1e+21", "send them as text"+try(send)
	}
	return what, "They are sent as they are;\n         if the API answers that the signature is wrong, " + cure + "."
}
