package importer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"orderpost/internal/files/xlsx"
	"orderpost/internal/order"
)

// record is one row as read.
type record struct {
	number, line int
	cells        []string
	kinds        []xlsx.Kind // what the cells of a workbook are; nil = text
	bad          *RowError   // the row does not fit the header
	totals       string      // the table of a workbook whose totals the row has
}

// table reads the rows of a file: CSV, NDJSON or a sheet of a workbook.
type table struct {
	file   string
	text   *text
	format Format
	limit  *rowLimit

	// For CSV and workbooks.
	header []string
	layout *layout
	past   time.Time // Options.Past
	until  time.Time // Options.Deadline
	named  int       // line of the header

	// For CSV.
	csv     *csv.Reader
	dialect dialect
	end     string // of the lines
	// skipped counts the lines so far that encoding/csv does not: Excel's sep=, and those
	// that end in CR inside quotes.
	skipped int
	// ours says that the file has results or saved dead letters, whose cells [EscapeFormula] wrote.
	ours bool

	// For workbooks. merged returns a merged area in the header; it reads the whole sheet.
	sheet  string
	rows   *xlsx.Rows
	merged func() string

	// For NDJSON.
	lines  *bufio.Reader
	accept codes // of order_no

	// trailer is what the mapping says of the trailer, and found the one of the file, once it was read.
	trailer *Trailer
	found   *foundTrailer

	unnamed  bool           // cells of columns without a name are left out
	width    int            // of the header, with the columns at its end that have no name
	edits    map[int][]Edit // the cells that a person corrected, by the line of their row
	skips    []rowSpan      // rows that are left out, and how many were
	leftOut  int
	number   int
	nextLine int
	blank    int // rows without content
	ending   *ending
	last     int // line of the last row
}

// Format is the format of a file.
type Format string

// The formats.
const (
	FormatAuto   Format = "auto"
	FormatCSV    Format = "csv"
	FormatNDJSON Format = "ndjson"
	FormatXLSX   Format = "xlsx"
)

// Formats lists the formats that a person can choose.
func Formats() []Format { return []Format{FormatAuto, FormatCSV, FormatNDJSON, FormatXLSX} }

// Unit is what a file of the format counts its places by: lines, or rows of a sheet.
func (f Format) Unit() string {
	if f == FormatXLSX {
		return "row"
	}
	return "line"
}

// hasColumns reports whether a header names the columns of the format.
func (f Format) hasColumns() bool { return f != FormatNDJSON }

// maxRow bounds one row. Without a bound, an unclosed quote would read the whole file
// into memory.
const maxRow = 2*order.MaxBody + 64<<10

var errRowTooLong = fmt.Errorf("the row is longer than %d bytes; look for a quote that is not closed", 2*order.MaxBody)

// rowLimit fails for a row that is too long. Its user resets left for each row. It counts
// the line ends, too.
type rowLimit struct {
	r     io.Reader
	left  int
	lines int
}

// Read implements io.Reader.
func (l *rowLimit) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errRowTooLong
	}
	n, err := l.r.Read(p)
	l.left -= n
	l.lines += bytes.Count(p[:n], []byte{'\n'})
	return n, err
}

// openTable reads the head of a file from its beginning. book is the workbook that the
// file was opened as before, if it was; openTable opens it otherwise, and then book stays
// open when the table is closed. closeTable is never nil.
func openTable(content io.ReadSeeker, o *Options, book **xlsx.Book) (t *table, closeTable func(), err error) {
	closeTable = func() {}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return nil, closeTable, err
	}
	is := *book != nil
	if !is {
		if is, err = isBook(content, o.Format); err == nil && is {
			*book, err = openBook(content, o)
		} else if errors.Is(err, xlsx.ErrNoWorkbook) {
			err = fmt.Errorf("%s: %w", o.File, err)
		}
		if err != nil {
			return nil, closeTable, err
		}
	}
	if is {
		return sheetTable(*book, o)
	}
	unpacked, closeTable, err := Unpack(o.File, content)
	if err != nil {
		return nil, closeTable, err
	}
	t, err = readTable(unpacked, o)
	return t, closeTable, err
}

// openOnce is openTable for a file that is read once. closeAll closes the workbook, too.
func openOnce(content io.ReadSeeker, o *Options) (t *table, book *xlsx.Book, closeAll func(), err error) {
	t, closeTable, err := openTable(content, o, &book)
	return t, book, func() {
		closeTable()
		if book != nil {
			_ = book.Close()
		}
	}, err
}

// readTable reads the head of a file of text.
func readTable(content io.Reader, o *Options) (*table, error) {
	decoded, err := decode(o.File, content, o.Encoding)
	if err != nil {
		return nil, err
	}
	t := &table{file: o.File, text: decoded, format: o.Format, nextLine: 1, skips: o.skips(), edits: byLine(o.Edits), ending: &ending{r: decoded}}
	head := bufio.NewReaderSize(t.ending, 64<<10)
	start, _ := head.Peek(head.Size())
	if t.format == FormatAuto || t.format == "" {
		t.format = formatOf(start)
	}
	if t.end = lineEnd(start, t.format); t.end == "\r" || t.format == FormatCSV {
		head = bufio.NewReaderSize(&lineEnds{r: head, csv: t.format == FormatCSV, cr: t.end == "\r"}, 64<<10)
		start, _ = head.Peek(head.Size())
	}
	if t.format == FormatNDJSON {
		if line := whyNotNDJSON(start); line != "" {
			return nil, &RowError{File: o.File, Line: 1, Code: CodeHeader, Err: advise(line+"; NDJSON has one order a line, and jq makes it: "+jqCommand(start), " | orderpost enqueue -")}
		}
		if o.HeaderRow > 0 {
			return nil, fmt.Errorf("%s: NDJSON has no row that names columns", o.File)
		}
		t.lines = head
		return t, nil
	}
	return t, t.readHeader(head, o)
}

// arrange applies the mapping to the columns.
func (t *table) arrange(m Mapping) (err error) {
	if len(ownColumns(t.header)) == 0 { // results, rejects and dead letters have the orders alone
		t.trailer = m.Trailer
	}
	if err := t.trailer.fits(t.format); err != nil {
		return fmt.Errorf("%s: %w", t.file, err)
	}
	if t.format == FormatNDJSON {
		if !m.forNDJSON() {
			return fmt.Errorf("%s: NDJSON rows are orders already; types, names, constants and templates are for CSV", t.file)
		}
		t.accept = m.Accept[order.FieldOrderNo]
		return nil
	}
	t.unnamed = slices.Contains(m.LeaveOut, "")
	if t.layout, err = newLayout(t.header, m); err == nil {
		return nil
	}
	bad := &RowError{File: t.file, Sheet: t.sheet, Line: t.named, Code: CodeHeader, Err: err}
	if t.format == FormatXLSX {
		if area := t.merged(); area != "" {
			return t.mergedHeader(area)
		}
	}
	var of *columnError
	if errors.As(err, &of) {
		bad.Column, bad.Err = of.column, of.err
	} else if t.format == FormatCSV && (t.dialect.comma != ',' || len(t.header) == 1) {
		bad.Err = &advised{fmt.Errorf("%w; the delimiter is %q", err, t.dialect.comma), " (--delimiter sets another one)"}
	}
	return bad
}

// ending remembers the last byte of a text.
type ending struct {
	r    io.Reader
	last byte
}

// Read implements io.Reader.
func (e *ending) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if n > 0 {
		e.last = p[n-1]
	}
	return n, err
}

// unended returns the line of the last row if that has no line end, otherwise 0. Call
// it after the last row.
func (t *table) unended() int {
	if t.format == FormatXLSX || t.ending.last == '\n' || t.ending.last == '\r' {
		return 0
	}
	return t.last
}

// lineEnd returns the line end of a text that begins like this: LF, CR LF, or CR alone,
// which old Macs wrote. The first line end decides. In CSV, those inside quotes belong to
// their cells. NDJSON has none inside quotes.
func lineEnd(start []byte, format Format) string {
	quoted := false
	for i, b := range start {
		switch {
		case b == '"' && format == FormatCSV:
			quoted = !quoted
		case b == '\n' && !quoted:
			return "\n"
		case b == '\r' && !quoted:
			if bytes.HasPrefix(start[i+1:], []byte{'\n'}) {
				return "\r\n"
			}
			return "\r"
		}
	}
	return "\n"
}

// lineEnds makes line ends those that encoding/csv reads. It doubles the CR of each CR LF inside quotes, because
// encoding/csv takes one away, and the cell would not be the one of the file. Where lines end in CR, it converts the CR
// outside of quotes to LF.
type lineEnds struct {
	r      io.Reader
	csv    bool // quotes count
	cr     bool // lines end in CR
	quoted bool // after an odd number of quotes
	after  bool // the last byte was CR
	out    []byte
	err    error // after out
}

// Read implements io.Reader.
func (e *lineEnds) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		n, err := e.r.Read(p)
		e.err = err
		if !e.after && bytes.IndexByte(p[:n], '\r') < 0 { // the usual piece
			e.quoted = e.quoted != (e.csv && bytes.Count(p[:n], quoteMark)%2 == 1)
			return n, err
		}
		e.out = e.convert(p[:n])
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

var quoteMark = []byte{'"'}

func (e *lineEnds) convert(piece []byte) []byte {
	out := make([]byte, 0, len(piece)+16)
	for _, b := range piece {
		after := e.after
		e.after = b == '\r'
		switch {
		case b == '"' && e.csv:
			e.quoted = !e.quoted
		case b == '\n' && after && e.quoted:
			out = append(out, '\r')
		case b == '\n' && after && e.cr: // programs that add lines may end them in CR LF, which is one line end
			continue
		case b == '\r' && e.cr && !e.quoted:
			b = '\n'
		}
		out = append(out, b)
	}
	return out
}

// formatOf tells JSON from CSV. It takes a JSON array for NDJSON, whose reader then
// reports the mistake.
func formatOf(start []byte) Format {
	start = bytes.TrimLeft(start, jsonSpace)
	inside, array := bytes.CutPrefix(start, []byte("["))
	inside = bytes.TrimLeft(inside, jsonSpace)
	if bytes.HasPrefix(start, []byte("{")) || array && (len(inside) == 0 || inside[0] == '{' || inside[0] == ']') {
		return FormatNDJSON
	}
	return FormatCSV
}

const jsonSpace = " \t\r\n"

// whyNotNDJSON says why JSON is not NDJSON. It returns "" for NDJSON.
func whyNotNDJSON(start []byte) string {
	start = bytes.TrimLeft(start, jsonSpace)
	line, _, _ := bytes.Cut(start, []byte("\n"))
	switch {
	case bytes.HasPrefix(start, []byte("[")):
		return "the file is a JSON array"
	case string(bytes.TrimSpace(line)) == "{":
		return "the file is JSON whose objects go over several lines"
	}
	return ""
}

func jqCommand(start []byte) string {
	if bytes.HasPrefix(bytes.TrimLeft(start, jsonSpace), []byte("[")) {
		return "jq -c '.[]' FILE"
	}
	return "jq -c . FILE"
}

func (t *table) readHeader(head *bufio.Reader, o *Options) (err error) {
	if o.Delimiter != "" {
		if _, err := parseDelimiter(o.Delimiter); err != nil {
			return fmt.Errorf("the delimiter: %w", err)
		}
	}
	if t.dialect, err = detect(head, o.comma(), o.HeaderRow); err != nil {
		return fmt.Errorf("%s:1: %w", t.file, err)
	}
	if t.dialect.sep {
		t.skipped, t.nextLine = 1, 2
	}
	t.limit = &rowLimit{r: head}
	t.csv = csv.NewReader(t.limit)
	t.csv.Comma, t.csv.FieldsPerRecord = t.dialect.comma, -1
	for isBlank(t.header) || t.named < o.HeaderRow {
		t.limit.left = maxRow
		t.header, err = t.csv.Read()
		switch {
		case errors.Is(err, io.EOF):
			return &RowError{File: t.file, Line: 1, Code: CodeHeader, Err: errors.New("the file is empty; its first row must name the columns, one of them order_no")}
		case err != nil:
			return t.csvError(err)
		}
		t.named = t.advance(t.header)
	}
	if err := t.headerAt(o.HeaderRow); err != nil {
		return err
	}
	t.width = len(t.header)
	t.header = trimmed(t.header, 1) // Excel writes columns that were emptied
	for i, name := range t.header {
		if !utf8.ValidString(name) && !hasHalfCharacter(name) {
			return &RowError{File: t.file, Line: t.named, Column: i + 1, Code: CodeEncoding, Err: notUTF8(name)}
		}
	}
	if t.ours = slices.Contains(ownColumns(t.header), resultColumns[0]); t.ours {
		for i := range t.header {
			t.header[i] = unescapeFormula(t.header[i])
		}
	}
	return nil
}

// advance notes where the record read last ends and returns its first line.
func (t *table) advance(cells []string) int {
	line, _ := t.csv.FieldPos(0)
	line += t.skipped
	last := len(cells) - 1
	end, _ := t.csv.FieldPos(last)
	if t.end == "\r" {
		for _, cell := range cells {
			t.skipped += loneCRs(cell)
		}
	}
	t.nextLine = end + t.skipped + strings.Count(cells[last], "\n") + 1
	return line
}

// linesIn counts the line ends in a cell.
func (t *table) linesIn(cell string) int {
	n := strings.Count(cell, "\n")
	if t.end == "\r" {
		n += loneCRs(cell)
	}
	return n
}

func loneCRs(cell string) int { return strings.Count(cell, "\r") - strings.Count(cell, "\r\n") }

// read reads one row. An error ends the file: io.EOF, a *RowError if further rows
// cannot be told apart, or a read error.
func (t *table) read() (record, error) {
	switch t.format {
	case FormatNDJSON:
		return t.nextLineOfJSON()
	case FormatXLSX:
		return t.nextOfSheet()
	}
	for {
		t.limit.left = maxRow
		expected := t.nextLine
		cells, err := t.csv.Read()
		if errors.Is(err, io.EOF) { // encoding/csv skips the blank lines behind the last row
			t.blank += max(t.limit.lines+t.skipped+1-t.nextLine, 0)
		}
		if err != nil {
			return record{}, t.csvError(err)
		}
		line := t.advance(cells)
		t.blank += line - expected
		if isBlank(cells) {
			t.blank++
			continue
		}
		if t.skip(line) {
			continue
		}
		t.number++
		if cells = t.ofColumns(cells); t.ours {
			for i := range cells {
				cells[i] = unescapeFormula(cells[i])
			}
		}
		rec := record{number: t.number, line: line, cells: cells}
		t.last = rec.line
		if len(cells) != len(t.header) {
			rec.bad = &RowError{File: t.file, Line: rec.line, Code: CodeCells,
				Err: fmt.Errorf("the row has %d cells, the header %d; check for a delimiter or a quote inside a cell, or a column without a name", len(cells), len(t.header))}
			if len(cells) > len(t.header) && len(cells) <= t.width {
				rec.bad.Err = &advised{rec.bad.Err, " (--leave-out '' leaves out what has none)"}
			}
		}
		t.correct(&rec)
		return rec, nil
	}
}

// headerAt returns an error if the row that names the columns is not the one that was said.
func (t *table) headerAt(row int) error {
	if row == 0 || t.named == row {
		return nil
	}
	return &RowError{File: t.file, Sheet: t.sheet, Line: row, Code: CodeHeader,
		Err: fmt.Errorf("no row begins here that could name the columns; the next one with content is %s %d", t.format.Unit(), t.named)}
}

// skip reports whether a row is left out, and counts it then.
func (t *table) skip(line int) bool {
	out := slices.ContainsFunc(t.skips, func(s rowSpan) bool { return s.from <= line && line <= s.to })
	if out {
		t.leftOut++
		t.last = line
	}
	return out
}

// ofColumns returns the cells of a row without the empty ones at its end, or those of columns
// without a name that are left out. In text, a row that is longer than the header's line has a cell
// too many somewhere.
func (t *table) ofColumns(cells []string) []string {
	if t.trailer != nil && t.trailer.is(cells) {
		return cells
	}
	if t.unnamed && len(cells) > len(t.header) && (t.format == FormatXLSX || len(trimmed(cells, len(t.header))) <= t.width) {
		return cells[:len(t.header)]
	}
	return trimmed(cells, len(t.header))
}

// trimmed removes trailing empty cells but keeps the first n cells.
func trimmed(cells []string, n int) []string {
	for len(cells) > n && strings.TrimSpace(cells[len(cells)-1]) == "" {
		cells = cells[:len(cells)-1]
	}
	return cells
}

func isBlank(cells []string) bool {
	return !slices.ContainsFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) != "" })
}

func (t *table) nextLineOfJSON() (record, error) {
	for {
		line, err := t.readLine()
		if err != nil {
			return record{}, err
		}
		t.nextLine++
		if strings.TrimSpace(line) == "" {
			t.blank++
			continue
		}
		if t.skip(t.nextLine - 1) {
			continue
		}
		t.number++
		t.last = t.nextLine - 1
		return record{number: t.number, line: t.last, cells: []string{line}}, nil
	}
}

// readLine reads a line of bounded length without its line end.
func (t *table) readLine() (string, error) {
	var long []byte
	for {
		part, err := t.lines.ReadSlice('\n')
		switch {
		case err == nil, errors.Is(err, io.EOF) && len(part)+len(long) > 0:
			return strings.TrimRight(string(append(long, part...)), "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
			if long = append(long, part...); len(long) > maxRow {
				return "", &RowError{File: t.file, Line: t.nextLine, Code: Code(order.CodeTooLarge), Err: fmt.Errorf("the line is longer than %d bytes", maxRow)}
			}
		case errors.Is(err, io.EOF):
			return "", io.EOF
		default:
			return "", fmt.Errorf("%s: %w", t.file, err)
		}
	}
}

func (t *table) csvError(err error) error {
	var parse *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, errRowTooLong):
		return &RowError{File: t.file, Line: t.nextLine, Code: CodeQuote, Err: errRowTooLong}
	case !errors.As(err, &parse):
		return fmt.Errorf("%s: %w", t.file, err)
	}
	bad := &RowError{File: t.file, Line: parse.Line + t.skipped, Column: parse.Column, Code: CodeQuote, Err: parse.Err}
	if parse.StartLine != parse.Line {
		bad.Err = fmt.Errorf("%w; the row begins in line %d", parse.Err, parse.StartLine+t.skipped)
	}
	bad.Err = fmt.Errorf("%w; put the whole cell in quotes and double the quotes inside it. Rows cannot be told apart behind it, so that it cannot be skipped", bad.Err)
	return bad
}
