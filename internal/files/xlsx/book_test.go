package xlsx_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/xlsx"
	"orderpost/internal/testing/xlsxtest"
)

// open opens a workbook until the test ends.
func open(t testing.TB, content []byte) (*xlsx.Book, error) {
	t.Helper()
	b, err := xlsx.Open(bytes.NewReader(content), int64(len(content)), t.TempDir())
	if err == nil {
		t.Cleanup(func() { require.NoError(t, b.Close()) })
	}
	return b, err
}

// read reads all rows of a sheet; "" = the only one.
func read(t testing.TB, b *xlsx.Book, sheet string) (out []xlsx.Row, notes xlsx.Notes, err error) {
	t.Helper()
	s, err := b.Sheet(sheet)
	if err != nil {
		return nil, notes, err
	}
	rows, err := b.Rows(s)
	if err != nil {
		return nil, notes, err
	}
	defer func() { require.NoError(t, rows.Close()) }()
	for {
		row, err := rows.Next(0)
		if errors.Is(err, io.EOF) {
			return out, rows.Notes(), nil
		} else if err != nil {
			return out, rows.Notes(), err
		}
		out = append(out, *row)
	}
}

// TestCells: every way to store a cell.
func TestCells(t *testing.T) {
	book := xlsxtest.Book{
		Strings: []string{"<t>plain</t>", "<r><t>rich </t></r><r><rPr><b/></rPr><t xml:space=\"preserve\">text</t></r><rPh sb=\"0\" eb=\"1\"><t>hint</t></rPh>", "<t>a_x000D_b_x005F_x0041_</t>", "<t/>"},
		Styles:  `<numFmts count="1"><numFmt numFmtId="164" formatCode="0000"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/></cellXfs>`,
		Sheets: []string{xlsxtest.Rows(
			`<c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c><c r="D1" t="s"><v>2</v></c><c r="E1" t="s"><v>3</v></c>`,
			`<c><v>1.5</v></c><c s="1"><v>46387</v></c><c s="2"><v>42</v></c><c s="2"><v>12345</v></c><c t="b"><v>1</v></c><c t="e"><v>#N/A</v></c><c t="str"><v>as it is</v></c><c t="d"><v>2026-12-31</v></c>`,
			`<c s="1"/><c s="2"></c>`, // styled, and empty
			`<c><f>A1</f></c><c><f>1+1</f><v>2</v></c><c t="str"><f>""</f><v></v></c><c t="e"><f>1/0</f><v>#DIV/0!</v></c>`,
		)},
	}
	b, err := open(t, book.Bytes())
	require.NoError(t, err)
	rows, notes, err := read(t, b, "")
	require.NoError(t, err)
	require.Equal(t, []xlsx.Row{
		{Number: 1, Cells: []string{"plain", "", "rich text", "a\rb_x0041_"}, Kinds: []xlsx.Kind{xlsx.Text, xlsx.Empty, xlsx.Text, xlsx.Text}},
		{Number: 2, Cells: []string{"1.5", "2026-12-31", "42", "12345", "TRUE", "#N/A", "as it is", "2026-12-31"},
			Kinds: []xlsx.Kind{xlsx.Number, xlsx.Date, xlsx.Padded(4), xlsx.Number, xlsx.Bool, xlsx.Error, xlsx.Text, xlsx.Date}},
		{Number: 4, Cells: []string{"", "2", "", "#DIV/0!"}, Kinds: []xlsx.Kind{xlsx.Uncalculated, xlsx.Number, xlsx.Text, xlsx.Error}},
	}, rows)
	require.Equal(t, xlsx.Notes{Formulas: 3, FirstFormula: "B4"}, notes)
}

// TestWhatOtherWritersWrite: a spreadsheet reads these cells, so nobody may call them damaged.
func TestWhatOtherWritersWrite(t *testing.T) {
	const first = `<row r="1"><c r="A1" t="s"><v>0</v></c></row>`
	for cells, want := range map[string]xlsx.Row{
		`<c r="A2" t="s"><v/></c><c r="B2"><v>5</v></c>`:                                                          {Cells: []string{"", "5"}, Kinds: []xlsx.Kind{xlsx.Empty, xlsx.Number}},
		`<c r="A2" t="b"><v></v></c><c r="B2" t="e"><v/></c><c r="C2" t="d"><v> </v></c><c r="D2"><v> 5 </v></c>`: {Cells: []string{"", "", "", "5"}, Kinds: []xlsx.Kind{xlsx.Empty, xlsx.Empty, xlsx.Empty, xlsx.Number}},
		"<c r=\"A2\" t=\"s\"><v>\n 0\t</v></c><c t=\"b\"><v> true </v></c><c t=\"e\"><v> #N/A\n</v></c><c t=\"d\"><v> 2026-12-31 </v></c>": {Cells: []string{"text", "TRUE", "#N/A", "2026-12-31"},
			Kinds: []xlsx.Kind{xlsx.Text, xlsx.Bool, xlsx.Error, xlsx.Date}},
		`<c r="a2" t="b"><v>TRUE</v></c>`:                                               {Cells: []string{"TRUE"}, Kinds: []xlsx.Kind{xlsx.Bool}},
		`<c r="A2" t="str"><v> x </v></c>`:                                              {Cells: []string{" x "}, Kinds: []xlsx.Kind{xlsx.Text}},
		`<c r="A2"><f>1+1</f><v/></c>`:                                                  {Cells: []string{""}, Kinds: []xlsx.Kind{xlsx.Uncalculated}},
		`<c r="A2" t="b"><f>A1</f><v> </v></c>`:                                         {Cells: []string{""}, Kinds: []xlsx.Kind{xlsx.Uncalculated}},
		`<c r="A2" z:r="B9" z:t="what" z:s="x"><z:v>7</z:v><v>5</v></c><z:c t="what"/>`: {Cells: []string{"5"}, Kinds: []xlsx.Kind{xlsx.Number}},
	} {
		want.Number = 2
		sheet := `<sheetData xmlns:z="urn:z">` + first + `<row r="2" z:r="9">` + cells + `</row></sheetData>`
		shared := `<si><t>text</t></si>`
		prefixed := strings.NewReplacer("<c", "<x:c", "</c", "</x:c", "<v", "<x:v", "</v", "</x:v", "<f", "<x:f", "</f", "</x:f", "<row", "<x:row", "</row", "</x:row", "<sheetData", "<x:sheetData", "</sheetData", "</x:sheetData").Replace(sheet)
		for _, parts := range []map[string]string{
			{"xl/worksheets/sheet1.xml": "<worksheet>" + sheet + "</worksheet>", "xl/sharedStrings.xml": "<sst>" + shared + "</sst>"},
			{"xl/worksheets/sheet1.xml": `<x:worksheet xmlns:x="http://schemas.openxmlformats.org/spreadsheetml/2006/main">` + prefixed + "</x:worksheet>", "xl/sharedStrings.xml": `<y:sst><y:si><y:t>text</y:t></y:si></y:sst>`,
				"xl/workbook.xml": `<b:workbook xmlns:rel="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><b:sheets><b:sheet name="Orders" id="no" rel:id="s0" z:id="zz"/></b:sheets></b:workbook>`},
		} {
			b, err := open(t, xlsxtest.Book{Sheets: []string{""}, Parts: parts}.Bytes())
			require.NoError(t, err)
			rows, _, err := read(t, b, "")
			require.NoError(t, err, cells)
			require.Equal(t, want, rows[1], cells)
		}
	}
}

// TestManyTexts: texts that do not fit into memory come back from the disk, in any order.
func TestManyTexts(t *testing.T) {
	const n = 12_000 // of 1 KiB: three times what is kept, and more than the cache
	text := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("ä", 500+i%7)) }
	book := xlsxtest.Book{}
	var cells strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	var want []int
	for i := range n {
		book.Strings = append(book.Strings, "<t>"+text(i)+"</t>")
		k := i
		if i%2 == 1 {
			k = r.IntN(n)
		}
		want = append(want, k)
		fmt.Fprintf(&cells, `<row><c t="s"><v>%d</v></c></row>`, k)
	}
	book.Sheets = []string{"<sheetData>" + cells.String() + "</sheetData>"}
	b, err := open(t, book.Bytes())
	require.NoError(t, err)
	for range 2 { // a file is read several times
		rows, _, err := read(t, b, "")
		require.NoError(t, err)
		require.Len(t, rows, n)
		for i, row := range rows {
			require.Equal(t, text(want[i]), row.Cells[0])
		}
	}
}

// TestWriter: what is written reads as it was, whatever it holds, and the same rows make the
// same bytes.
func TestWriter(t *testing.T) {
	parts := []string{"a", "\r", "\n", "\r\n", "\t", "\x00", "\x1f", "_x0041_", "_x", "_", "<", ">", "&", "\"", "'", "=1+1", " ", "ä", "😀", "\ufffe", "\ufffd", "]]>", "&#65;"}
	r := rand.New(rand.NewPCG(3, 4))
	var want [][]string
	for range 300 {
		var row []string
		for range 4 {
			cell := ""
			for range r.IntN(5) {
				cell += parts[r.IntN(len(parts))]
			}
			row = append(row, cell)
		}
		want = append(want, append(row, "end"))
	}
	write := func() []byte {
		var out bytes.Buffer
		w, err := xlsx.NewWriter(&out, "Orders: [1]/2 & more, with a name that is too long", []string{"a", "b", "c", "d", "e"})
		require.NoError(t, err)
		for _, row := range want {
			require.NoError(t, w.Write(row, nil, 1, xlsx.Bad))
		}
		typed := []string{"12.5", "2026-12-31", "TRUE", "#N/A", "1234567890123456", "2026-12-31T06:00:00", "12:00:00", ""}
		kinds := []xlsx.Kind{xlsx.Number, xlsx.Date, xlsx.Bool, xlsx.Error, xlsx.LongNumber, xlsx.Date, xlsx.Date, xlsx.Uncalculated}
		require.NoError(t, w.Write(typed, kinds, -1, xlsx.Plain))
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	content := write()
	require.Equal(t, content, write())
	b, err := open(t, content)
	require.NoError(t, err)
	require.Equal(t, "Orders_ _1__2 & more, with a na", b.Sheets()[0].Name)
	rows, notes, err := read(t, b, "")
	require.NoError(t, err)
	require.Equal(t, xlsx.Notes{Filtered: true}, notes)
	require.Len(t, rows, len(want)+2)
	for i, row := range want {
		require.Equal(t, row, rows[i+1].Cells)
	}
	last := rows[len(rows)-1]
	require.Equal(t, []string{"12.5", "2026-12-31", "TRUE", "#N/A", "1234567890123456", "2026-12-31T06:00:00", "12:00:00", "#N/A"}, last.Cells)
	require.Equal(t, []xlsx.Kind{xlsx.Number, xlsx.Date, xlsx.Bool, xlsx.Error, xlsx.LongNumber, xlsx.Date, xlsx.Date, xlsx.Error}, last.Kinds)

	w, err := xlsx.NewWriter(io.Discard, "x", []string{"a"})
	require.NoError(t, err)
	require.ErrorContains(t, w.Write([]string{strings.Repeat("x", xlsx.MaxText+1)}, nil, -1, xlsx.Plain), "write the rows as CSV")
	_, err = xlsx.NewWriter(io.Discard, "x", make([]string, xlsx.MaxColumns+1))
	require.ErrorContains(t, err, "a sheet has 16384 columns at most")
}

// FuzzBook: no file makes the reader panic, hang or read rows that are out of order.
func FuzzBook(f *testing.F) {
	f.Add(xlsxtest.Book{Sheets: []string{xlsxtest.Rows(xlsxtest.Texts("order_no", "timeout"), `<c r="A2" s="1"><v>46387</v></c><c r="B2" t="s"><v>0</v></c>`)},
		Strings: []string{"<t>x</t>"}, Styles: `<cellXfs><xf/><xf numFmtId="14"/></cellXfs>`}.Bytes())
	f.Add(xlsxtest.Book{Sheets: []string{`<sheetData><row r="2" hidden="1"><c r="B2" t="e"><f>1/0</f><v>#DIV/0!</v></c></row></sheetData><mergeCells><mergeCell ref="A1:B2"/></mergeCells>`}}.Bytes())
	damaged := xlsxtest.Book{Sheets: []string{xlsxtest.Rows(xlsxtest.Texts("order_no"))}}.Bytes()
	damaged[bytes.Index(damaged, []byte("sheet1.xml"))+40] ^= 0xff
	f.Add(damaged)
	f.Fuzz(func(t *testing.T, content []byte) {
		b, err := xlsx.Open(bytes.NewReader(content), int64(len(content)), "")
		if err != nil {
			return
		}
		defer func() { require.NoError(t, b.Close()) }()
		for _, s := range b.Sheets() {
			rows, _, _ := read(t, b, s.Name)
			last := 0
			for _, row := range rows {
				require.Greater(t, row.Number, last)
				require.Len(t, row.Kinds, len(row.Cells))
				last = row.Number
			}
		}
	})
}

// FuzzSheet is FuzzBook for what stands in a sheet and in its texts, which a changed byte of
// an archive hardly reaches. A space in end tags makes the reader leave its short cut, and
// changes nothing.
func FuzzSheet(f *testing.F) {
	f.Add(`<sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c s="1"><v>1.5</v></c></row></sheetData>`, "<si><t>x</t></si>")
	f.Add(`<cols><col min="1" max="3" hidden="1"/></cols><sheetData><row><c t="inlineStr"><is><r><t>a_x000D_</t></r></is></c><c><f>A1</f><v>1</v></c></row></sheetData><autoFilter/>`, "")
	f.Add(`<sheetData><row><c t="str"><v>a&amp;b_x000D_</v></c><c t="s"><v>1</v></c></row></sheetData>`, "<si><t/></si><si><t>a_x005F_</t></si>")
	f.Fuzz(func(t *testing.T, sheet, texts string) {
		rows, err := readParts(t, sheet, texts)
		for _, row := range rows {
			require.Len(t, row.Kinds, len(row.Cells))
			for i, kind := range row.Kinds {
				require.True(t, kind != xlsx.Empty || row.Cells[i] == "")
			}
		}
		if strings.Contains(sheet+texts, "<!") { // CDATA may hold what looks like a tag
			return
		}
		again, err2 := readParts(t, strings.ReplaceAll(sheet, "</v></c>", "</v ></c>"), strings.ReplaceAll(texts, "</t></si>", "</t ></si>"))
		require.Equal(t, rows, again)
		require.Equal(t, err == nil, err2 == nil, "%v, %v", err, err2)
	})
}

// readParts reads a sheet with what stands in the elements worksheet and sst.
func readParts(t *testing.T, sheet, texts string) ([]xlsx.Row, error) {
	t.Helper()
	content := xlsxtest.Book{Sheets: []string{""}, Styles: `<cellXfs><xf/><xf numFmtId="14"/></cellXfs>`, Parts: map[string]string{
		"xl/worksheets/sheet1.xml": "<worksheet>" + sheet + "</worksheet>", "xl/sharedStrings.xml": "<sst>" + texts + "</sst>"}}.Bytes()
	b, err := xlsx.Open(bytes.NewReader(content), int64(len(content)), "")
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close()) }()
	rows, _, err := read(t, b, "Orders")
	return rows, err
}

// TestManySheets: sheets are not read to their end to see whether they are empty.
func TestManySheets(t *testing.T) {
	long := "<sheetData>" + strings.Repeat(`<row><c s="1"/></row>`, 100_000) + "</sheetData>"
	b, err := open(t, xlsxtest.Book{Sheets: []string{long, xlsxtest.Rows(xlsxtest.Texts("order_no"))}}.Bytes())
	require.NoError(t, err)
	_, err = b.Sheet("")
	require.ErrorContains(t, err, `the workbook has 2 sheets, and an import reads one: "Orders", "Sheet2"; say which`)
	b, err = open(t, xlsxtest.Book{Sheets: []string{xlsxtest.Rows("<c/>"), xlsxtest.Rows(xlsxtest.Texts("order_no"))}}.Bytes())
	require.NoError(t, err)
	s, err := b.Sheet("")
	require.NoError(t, err)
	require.Equal(t, "Sheet2", s.Name)
}

// TestSheetNames: a name of a sheet stands in messages and headers, whatever it holds.
func TestSheetNames(t *testing.T) {
	b, err := open(t, xlsxtest.Book{Sheets: []string{xlsxtest.Rows(xlsxtest.Texts("a"))}, Names: []string{"Or\nders\u0085"}}.Bytes())
	require.NoError(t, err)
	require.Equal(t, "Or ders ", b.Sheets()[0].Name)
	_, err = open(t, xlsxtest.Book{Sheets: []string{""}, Names: []string{strings.Repeat("x", 300)}}.Bytes())
	require.ErrorContains(t, err, "the name of sheet 1 has 300 bytes")
}
