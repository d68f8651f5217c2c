package xlsx

import (
	"archive/zip"
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/flate"
)

// Tone is the colour of a cell.
type Tone uint8

// The tones, in the order of the fills in stylesPart.
const (
	Plain Tone = iota
	Good
	Warn
	Bad
	Quiet
)

// MaxText is the most UTF-16 units that a cell can hold.
const MaxText = 32767

// Writer writes a workbook of one sheet: a header that stays in view, rows of cells, and a
// filter. It writes no formula, so nothing in a cell can run. It needs no temporary file,
// and its memory does not grow with the rows. The same rows make the same bytes.
type Writer struct {
	zip     *zip.Writer
	w       *bufio.Writer
	columns []string // the letters
	rows    int
}

// NewWriter begins a workbook whose sheet has this header. sheet is the name of the sheet.
func NewWriter(w io.Writer, sheet string, header []string) (*Writer, error) {
	if len(header) > MaxColumns {
		return nil, fmt.Errorf("a sheet has %d columns at most, and this one would have %d", MaxColumns, len(header))
	}
	out := &Writer{zip: zip.NewWriter(w)}
	out.zip.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestSpeed) })
	for i := range header {
		out.columns = append(out.columns, ColumnName(i+1))
	}
	var name strings.Builder
	escapeXML(&name, sheetName(sheet))
	for _, part := range [][2]string{
		{"[Content_Types].xml", typesPart}, {"_rels/.rels", rootRelations}, {"xl/workbook.xml", fmt.Sprintf(bookPart, name.String())},
		{"xl/_rels/workbook.xml.rels", bookRelations}, {"xl/styles.xml", stylesPart()},
	} {
		if err := out.part(part[0], part[1]); err != nil {
			return nil, err
		}
	}
	if err := out.part("xl/worksheets/sheet1.xml", ""); err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(out.w, sheetBegin, max(len(header), 1)) // an error stays in the buffer
	return out, out.row(header, nil, styleHeader, -1, 0)
}

// sheetName returns a name that a sheet can have.
func sheetName(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(`:\/?*[]`, r) || !isXML(r) {
			return '_'
		}
		return r
	}, strings.Trim(name, "'"))
	for units(name) > 31 {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	if strings.TrimSpace(name) == "" {
		return "Sheet1"
	}
	return name
}

// part begins a part, and writes its text.
func (w *Writer) part(name, text string) error {
	if w.w != nil {
		if err := w.w.Flush(); err != nil {
			return err
		}
	}
	p, err := w.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate})
	if err != nil {
		return err
	}
	if w.w == nil {
		w.w = bufio.NewWriterSize(p, 256<<10)
	} else {
		w.w.Reset(p)
	}
	_, err = w.w.WriteString(text)
	return err
}

// The styles of cells, by their position in stylesPart. styleText + a tone is text in a
// colour.
const (
	styleHeader   = 1
	styleDate     = 2
	styleDateTime = 3
	styleTime     = 4
	styleText     = 5
	stylePadded   = styleText + int(Quiet) // + the digits
	styleSigned   = stylePadded + mostDigits + 1
)

// Write writes a row. kinds says what each cell is and may be shorter than cells: the rest
// is text. Numbers, dates, truth values and errors are written as what they are, so that a
// row that is read again is the same. toned is the index of the cell that has the tone.
func (w *Writer) Write(cells []string, kinds []Kind, toned int, tone Tone) error {
	return w.row(cells, kinds, styleText, toned, tone)
}

func (w *Writer) row(cells []string, kinds []Kind, style, toned int, tone Tone) error {
	if w.rows == MaxRows {
		return fmt.Errorf("a sheet has %d rows at most; write the rows as CSV", MaxRows)
	}
	w.rows++
	number := strconv.Itoa(w.rows)
	b := w.w
	_, _ = b.WriteString(`<row r="`)
	_, _ = b.WriteString(number)
	_, _ = b.WriteString(`">`)
	for i, cell := range cells {
		kind := Text
		if i < len(kinds) {
			kind = kinds[i]
		}
		of := style
		if i == toned {
			of += int(tone)
		}
		if cell == "" && kind != Uncalculated && i != toned {
			continue
		}
		if units(cell) > MaxText {
			return fmt.Errorf("row %d: a cell of a sheet holds %d characters, and one of these is longer; write the rows as CSV", w.rows, MaxText)
		}
		_, _ = b.WriteString(`<c r="`)
		if i < len(w.columns) {
			_, _ = b.WriteString(w.columns[i])
		} else {
			_, _ = b.WriteString(ColumnName(i + 1))
		}
		_, _ = b.WriteString(number)
		w.cell(cell, kind, of)
	}
	_, err := b.WriteString("</row>")
	return err
}

// cell writes what stands behind the name of a cell.
func (w *Writer) cell(cell string, kind Kind, style int) {
	b := w.w
	value := func(attrs, text string) {
		_, _ = b.WriteString(attrs)
		_, _ = b.WriteString("<v>")
		escapeXML(b, text)
		_, _ = b.WriteString("</v></c>")
	}
	switch {
	case kind.IsPadded():
		value(`" s="`+strconv.Itoa(stylePadded+kind.digits())+`">`, cell)
		return
	case kind == Signed:
		value(`" s="`+strconv.Itoa(styleSigned)+`">`, cell)
		return
	case kind == Number || kind == LongNumber:
		value(`">`, cell)
		return
	case kind == Bool:
		value(`" t="b">`, map[bool]string{true: "1", false: "0"}[cell == "TRUE"])
		return
	case kind == Uncalculated: // it has no value, and must not look as if it had one
		value(`" t="e">`, "#N/A")
		return
	case kind == Error:
		value(`" t="e">`, cell)
		return
	case kind == Date:
		if n, err := serial(cell); err == nil {
			style := styleDate
			if strings.Contains(cell, "T") {
				style = styleDateTime
			} else if strings.Contains(cell, ":") {
				style = styleTime
			}
			value(`" s="`+strconv.Itoa(style)+`">`, strconv.FormatFloat(n, 'f', -1, 64))
			return
		}
	}
	_, _ = b.WriteString(`" s="`)
	_, _ = b.WriteString(strconv.Itoa(style))
	_, _ = b.WriteString(`" t="inlineStr"><is><t xml:space="preserve">`)
	escapeXML(b, cell)
	_, _ = b.WriteString("</t></is></c>")
}

// Close completes the workbook. It does not close what it was written to.
func (w *Writer) Close() error {
	last := ColumnName(max(len(w.columns), 1)) + strconv.Itoa(max(w.rows, 1))
	_, _ = fmt.Fprintf(w.w, sheetEnd, last, last)
	if err := w.w.Flush(); err != nil {
		return err
	}
	return w.zip.Close()
}

// units returns the length of a text in UTF-16, by which a spreadsheet counts.
func units(text string) int {
	if len(text) <= 31 { // the usual case: as short as any limit
		return len(text)
	}
	n := 0
	for _, r := range text {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

// isXML reports whether XML can hold a character.
func isXML(r rune) bool {
	return r >= ' ' && r != 0xfffe && r != 0xffff || r == '\t' || r == '\n'
}

// escapeXML writes a text so that a reader gets it back, as unescapeCharacters does. Bytes
// that are not UTF-8 become U+FFFD, as everywhere in XML.
func escapeXML(b interface {
	io.StringWriter
}, text string) {
	from := 0
	for i, r := range text {
		var as string
		switch {
		case r == '&':
			as = "&amp;"
		case r == '<':
			as = "&lt;"
		case r == '>':
			as = "&gt;"
		case r == '"':
			as = "&quot;"
		case r == '_':
			if _, ok := escapedCharacter([]byte(text[i:min(i+7, len(text))])); !ok {
				continue
			}
			as = "_x005F_"
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(text[i:]); size > 1 {
				continue
			}
			as = "\ufffd"
		case !isXML(r):
			as = fmt.Sprintf("_x%04X_", r)
		default:
			continue
		}
		_, _ = b.WriteString(text[from:i])
		_, _ = b.WriteString(as)
		_, size := utf8.DecodeRuneInString(text[i:])
		from = i + size
	}
	_, _ = b.WriteString(text[from:])
}

const (
	declaration = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>` + "\n"
	mainSpace   = `xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"`
	relSpace    = `http://schemas.openxmlformats.org/officeDocument/2006/relationships`

	typesPart = declaration + `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">` +
		`<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>` +
		`<Default Extension="xml" ContentType="application/xml"/>` +
		`<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>` +
		`<Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/>` +
		`<Override PartName="/xl/styles.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.styles+xml"/></Types>`

	rootRelations = declaration + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
		`<Relationship Id="rId1" Type="` + relSpace + `/officeDocument" Target="xl/workbook.xml"/></Relationships>`

	bookPart = declaration + `<workbook ` + mainSpace + ` xmlns:r="` + relSpace + `"><sheets><sheet name="%s" sheetId="1" r:id="rId1"/></sheets></workbook>`

	bookRelations = declaration + `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">` +
		`<Relationship Id="rId1" Type="` + relSpace + `/worksheet" Target="worksheets/sheet1.xml"/>` +
		`<Relationship Id="rId2" Type="` + relSpace + `/styles" Target="styles.xml"/></Relationships>`

	// stylesPart has the fonts, fills and formats. Format 49 is text, 14 a date, 22 a date
	// with its time, 21 a time. The fills are those that spreadsheets offer as good, neutral
	// and bad, and a grey.
	stylesBegin = declaration + `<styleSheet ` + mainSpace + `>`
	stylesFills = `<fonts count="2"><font><sz val="11"/><name val="Calibri"/></font><font><b/><sz val="11"/><name val="Calibri"/></font></fonts>` +
		`<fills count="6"><fill><patternFill patternType="none"/></fill><fill><patternFill patternType="gray125"/></fill>` +
		`<fill><patternFill patternType="solid"><fgColor rgb="FFC6EFCE"/></patternFill></fill>` +
		`<fill><patternFill patternType="solid"><fgColor rgb="FFFFEB9C"/></patternFill></fill>` +
		`<fill><patternFill patternType="solid"><fgColor rgb="FFFFC7CE"/></patternFill></fill>` +
		`<fill><patternFill patternType="solid"><fgColor rgb="FFE7E6E6"/></patternFill></fill></fills>` +
		`<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>`
	stylesCells = `<xf/><xf numFmtId="49" fontId="1" applyNumberFormat="1" applyFont="1"/>` +
		`<xf numFmtId="14" applyNumberFormat="1"/><xf numFmtId="22" applyNumberFormat="1"/><xf numFmtId="21" applyNumberFormat="1"/>` +
		`<xf numFmtId="49" applyNumberFormat="1"/><xf numFmtId="49" fillId="2" applyNumberFormat="1" applyFill="1"/>` +
		`<xf numFmtId="49" fillId="3" applyNumberFormat="1" applyFill="1"/><xf numFmtId="49" fillId="4" applyNumberFormat="1" applyFill="1"/>` +
		`<xf numFmtId="49" fillId="5" applyNumberFormat="1" applyFill="1"/>`

	sheetBegin = declaration + `<worksheet ` + mainSpace + `><sheetViews><sheetView workbookViewId="0">` +
		`<pane ySplit="1" topLeftCell="A2" activePane="bottomLeft" state="frozen"/></sheetView></sheetViews>` +
		`<cols><col min="1" max="%d" width="16" customWidth="1" style="5"/></cols><sheetData>` // cells that a person adds are text

	sheetEnd = `</sheetData><autoFilter ref="A1:%s"/><ignoredErrors><ignoredError sqref="A1:%s" numberStoredAsText="1"/></ignoredErrors></worksheet>`
)

// stylesPart has the formats of padded numbers, and that of signed ones, behind the others.
func stylesPart() string {
	const firstFormat = 164 // those below are built in
	var formats, cells strings.Builder
	for n := 1; n <= mostDigits; n++ {
		_, _ = fmt.Fprintf(&formats, `<numFmt numFmtId="%d" formatCode="%s"/>`, firstFormat+n, strings.Repeat("0", n))
		_, _ = fmt.Fprintf(&cells, `<xf numFmtId="%d" applyNumberFormat="1"/>`, firstFormat+n)
	}
	_, _ = fmt.Fprintf(&formats, `<numFmt numFmtId="%d" formatCode="\#0"/>`, firstFormat) // the sign tells that the number had signs
	_, _ = fmt.Fprintf(&cells, `<xf numFmtId="%d" applyNumberFormat="1"/>`, firstFormat)
	return stylesBegin + fmt.Sprintf(`<numFmts count="%d">`, mostDigits+1) + formats.String() + `</numFmts>` + stylesFills +
		fmt.Sprintf(`<cellXfs count="%d">`, styleSigned+1) + stylesCells + cells.String() + `</cellXfs></styleSheet>`
}
