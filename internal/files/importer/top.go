package importer

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// TopRow is one of the first rows of a file, in which a person finds the one that names the columns.
type TopRow struct {
	Line  int
	Cells []string // clipped
}

// ReadTop reads the first rows with content of a CSV file or a sheet, whatever names the columns, and returns the line
// of the row that seems to name them: 0 = the first row does, or none of them seems to. It returns no rows of NDJSON. A row
// that cannot be read ends them: the check says what is wrong with it.
func ReadTop(content io.ReadSeeker, o Options, rows int) (top []TopRow, header int, err error) {
	o.Reading = Reading{Format: o.Format, Encoding: o.Encoding, Delimiter: o.Delimiter, Sheet: o.Sheet}
	if top, err = readTop(content, o, rows); err != nil {
		return nil, 0, err
	}
	if usualWidth(top) > 1 || o.Delimiter != "" {
		return top, headerOf(top), nil
	}
	for _, delimiter := range []string{";", ",", "tab", "|"} { // a title tells none
		o.Delimiter = delimiter
		other, err := readTop(content, o, rows)
		if header = headerOf(other); err == nil && header > 0 {
			return other, header, nil
		}
	}
	return top, 0, nil
}

func readTop(content io.ReadSeeker, o Options, rows int) (top []TopRow, err error) {
	t, _, closeAll, err := openOnce(content, &o)
	defer closeAll()
	if err != nil || !t.format.hasColumns() {
		return nil, err
	}
	add := func(line int, cells []string) {
		row := TopRow{Line: line}
		for _, cell := range cells {
			row.Cells = append(row.Cells, clip(cell))
		}
		top = append(top, row)
	}
	add(t.named, t.header)
	for len(top) < rows {
		rec, err := t.next()
		var bad *RowError
		if errors.Is(err, io.EOF) || errors.As(err, &bad) {
			break
		} else if err != nil {
			return nil, err
		}
		add(rec.line, rec.cells)
	}
	return top, nil
}

// usualWidth returns how many cells with content at least half of the rows have.
func usualWidth(top []TopRow) int {
	if len(top) == 0 {
		return 0
	}
	var widths []int
	for _, row := range top {
		widths = append(widths, filled(row.Cells))
	}
	slices.Sort(widths)
	return widths[len(widths)/2]
}

// headerOf returns the line of the first row that is as wide as most, and in which every cell is a name of its own; 0 =
// it is the first row, or there is none.
func headerOf(top []TopRow) int {
	usual := usualWidth(top)
	for i, row := range top {
		switch {
		case usual < 2 || filled(row.Cells) < usual || !areNames(row.Cells):
		case i == 0:
			return 0
		default:
			return row.Line
		}
	}
	return 0
}

// filled counts the cells with content.
func filled(cells []string) (n int) {
	for _, cell := range cells {
		if strings.TrimSpace(cell) != "" {
			n++
		}
	}
	return n
}

// areNames reports whether the cells with content are different words.
func areNames(cells []string) bool {
	seen := make(map[string]bool, len(cells))
	for _, cell := range cells {
		cell = strings.TrimSpace(cell)
		if cell == "" {
			continue
		}
		_, err := strconv.ParseFloat(cell, 64)
		if err == nil || seen[cell] || !strings.ContainsFunc(cell, unicode.IsLetter) {
			return false
		}
		seen[cell] = true
	}
	return true
}
