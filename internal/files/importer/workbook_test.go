package importer

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"orderpost/internal/files/xlsx"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/xlsxtest"
)

var (
	texts  = xlsxtest.Texts
	header = texts("order_no", "timeout", "item")
	// dated has the styles 1 (a date), 2 (zeros in front) and 0.
	dated = `<numFmts><numFmt numFmtId="164" formatCode="00000000"/></numFmts><cellXfs><xf/><xf numFmtId="14"/><xf numFmtId="164"/></cellXfs>`
)

// book returns a workbook with one sheet, Orders.
func book(rows ...string) xlsxtest.Book {
	return xlsxtest.Book{Styles: dated, Sheets: []string{xlsxtest.Rows(rows...)}}
}

// openBytes opens content as a file named book.xlsx.
func openBytes(t testing.TB, content []byte, change ...func(*Options)) *File {
	t.Helper()
	o := Options{File: "book.xlsx", Temp: t.TempDir(), Sending: Sending{Direct: true}}
	for _, c := range change {
		c(&o)
	}
	f, err := Open(bytes.NewReader(content), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// accepting answers the questions about a field.
func accepting(field string, codes ...Code) func(*Options) {
	return func(o *Options) { o.Mapping.Accept = map[string][]Code{field: codes} }
}

// TestWorkbook: a sheet is the same orders as the CSV file with the same cells.
func TestWorkbook(t *testing.T) {
	b := book("", header+texts("qty:int", "price:number", "gift:bool", ""),
		texts("A-1")+`<c><v>30</v></c>`+texts(" Käse & <Brot> ")+`<c><v>2</v></c><c><v>1.1000000000000001</v></c><c t="b"><v>1</v></c>`,
		"", texts("  "),
		`<c r="A6" t="inlineStr"><is><t>0042</t></is></c><c r="B6" t="inlineStr"><is><t>30</t></is></c><c r="C6" t="inlineStr"><is><t>x</t></is></c><c r="D6"><v>0</v></c><c r="E6"><v>-3</v></c><c r="F6" t="inlineStr"><is><t>false</t></is></c><c r="G6" s="2"/>`)
	f := openBytes(t, b.Bytes())
	s, got := bodies(t, f)
	require.Equal(t, []string{
		`{"order_no":"A-1","timeout":30,"item":" Käse & <Brot> ","qty":2,"price":1.1,"gift":true}`,
		`{"order_no":"0042","timeout":30,"item":"x","qty":0,"price":-3,"gift":false}`,
	}, got)
	require.Equal(t, 2, s.Rows)
	require.Equal(t, 2, s.Blank)
	require.Equal(t, FormatXLSX, s.Format)
	require.Equal(t, &Sheet{Name: "Orders"}, s.Sheet)
	require.Empty(t, s.Sheet.Says())
	require.Equal(t, 3, rowsOf(t, f)[0].Line)
	require.Equal(t, 6, rowsOf(t, f)[1].Line)
	csv := openText(t, "order_no,timeout,item,qty:int,price:number,gift:bool\nA-1,30, Käse & <Brot> ,2,1.1,true\n0042,30,x,0,-3,false\n")
	_, same := bodies(t, csv)
	require.Equal(t, same, got)
}

// TestTotalsOfTables: the workbook itself says which rows have totals, whatever is in them.
func TestTotalsOfTables(t *testing.T) {
	with := func(attrs string, last string) []byte {
		b := book(header, texts("A-1", "30", "x"), last)
		b.Parts = map[string]string{
			"xl/worksheets/_rels/sheet1.xml.rels": `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/table" Target="../tables/table1.xml"/></Relationships>`,
			"xl/tables/table1.xml":                `<table xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" displayName="Juni" ref="A1:C3" ` + attrs + `/>`,
		}
		return b.Bytes()
	}
	const want = "book.xlsx:Orders!A3: column order_no: the row has the totals of the table Juni, and is no order"
	for _, last := range []string{texts("A-2", "30", "x"), texts("Stück", "1", ""), texts("Total", "soon", "x"), texts("Total") + `<c/><c><v>30</v></c>`} {
		require.Contains(t, refusals(t, openBytes(t, with(`totalsRowCount="1"`, last))), want, last)
	}
	_, got := bodies(t, openBytes(t, with(`totalsRowCount="0" totalsRowShown="1"`, texts("A-2", "30", "x"))))
	require.Len(t, got, 2)
	_, got = bodies(t, openBytes(t, with(`totalsRowCount="1"`, texts("A-2", "30", "x")), accepting("order_no", CodeNoOrder)))
	require.Len(t, got, 2)
}

// TestNumbersThatTheSheetShowsOtherwise: what a format adds is no part of the number, and the
// rejects of a workbook are asked about again.
func TestNumbersThatTheSheetShowsOtherwise(t *testing.T) {
	for code, c := range map[string]struct{ stored, want string }{
		"000-00-0000":     {"12345678", "the zeros that the sheet shows in front of it are no part of it"},
		"(000) 000-0000":  {"5551234567", "the signs with which the sheet shows it are no part of it"},
		"&quot;K-&quot;0": {"42", "the signs with which the sheet shows it are no part of it"},
		"00":              {"-5", "the zeros that the sheet shows"},
		"00.0":            {"5.5", "the zeros that the sheet shows"},
	} {
		b := xlsxtest.Book{Styles: `<numFmts><numFmt numFmtId="164" formatCode="` + code + `"/></numFmts><cellXfs><xf/><xf numFmtId="164"/></cellXfs>`,
			Sheets: []string{xlsxtest.Rows(header, texts("A-1", "30")+`<c s="1"><v>`+c.stored+`</v></c>`)}}
		f := openBytes(t, b.Bytes(), skipInvalid)
		s, err := f.Check(t.Context())
		require.NoError(t, err)
		require.Len(t, s.Bad, 1, code)
		require.Contains(t, s.Bad[0].Error(), "Orders!C2: column item: "+c.stored+" is stored as a number, and "+c.want)
		var rejects bytes.Buffer
		require.NoError(t, f.WriteRejects(t.Context(), &rejects))
		require.Contains(t, refusals(t, openBytes(t, rejects.Bytes())), c.want)
		typed := openBytes(t, b.Bytes(), mapped(Mapping{Types: map[string]Type{"item": TypeNumber}}))
		_, got := bodies(t, typed)
		require.Len(t, got, 1)
	}
}

// TestNumbersAsTheSheetShowsThem: with the zeros of the format where it has nothing else, if somebody says so.
func TestNumbersAsTheSheetShowsThem(t *testing.T) {
	sheet := func(code string, cells ...string) []byte {
		rows := []string{header}
		for i, cell := range cells {
			rows = append(rows, texts(fmt.Sprint("A-", i), "30")+cell)
		}
		return xlsxtest.Book{Styles: `<numFmts><numFmt numFmtId="164" formatCode="` + code + `"/></numFmts><cellXfs><xf/><xf numFmtId="164"/></cellXfs>`, Sheets: []string{xlsxtest.Rows(rows...)}}.Bytes()
	}
	shown := accepting("item", CodeShown)
	zeros := sheet("000000", `<c s="1"><v>1235</v></c>`, `<c s="1"><v>1234567</v></c>`, `<c><v>7</v></c>`, texts("x"))
	require.Contains(t, refusals(t, openBytes(t, zeros)), "To send 001235, as the sheet shows it: --accept item=as_shown. If it is right as it is: --accept item=excel_number")
	_, got := bodies(t, openBytes(t, zeros, shown))
	require.Equal(t, []string{`{"order_no":"A-0","timeout":30,"item":"001235"}`, `{"order_no":"A-1","timeout":30,"item":"1234567"}`, `{"order_no":"A-2","timeout":30,"item":"7"}`, `{"order_no":"A-3","timeout":30,"item":"x"}`}, got)
	for code, stored := range map[string]string{"000-00-0000": "12345678", "00.0": "5.5", "00": "-5", "(000) 000-0000": "5551234567"} {
		said := refusals(t, openBytes(t, sheet(code, `<c s="1"><v>`+stored+`</v></c>`), shown))
		require.Contains(t, said, "--accept item=excel_number", code)
		require.NotContains(t, said, "as_shown", code)
	}
}

// TestWorkbookWords: each way in which a workbook can be wrong has its words, which name
// sheet and cell and say what to do.
func TestWorkbookWords(t *testing.T) {
	good := texts("A-1") + `<c><v>30</v></c>` + texts("x")
	whole := book(header, good).Bytes()
	with := func(change func(*xlsxtest.Book), rows ...string) []byte {
		b := book(rows...)
		change(&b)
		return b.Bytes()
	}
	same := func(*xlsxtest.Book) {}
	parts := func(parts map[string]string) []byte {
		b := book(header, good)
		b.Parts = parts
		return b.Bytes()
	}
	for name, c := range map[string]struct {
		content []byte
		want    string
		change  func(*Options)
	}{
		"a number in order_no": {with(same, header, `<c><v>42</v></c>`+texts("30", "x")),
			`book.xlsx:Orders!A2: column order_no: 42 is stored as a number, which keeps no leading zeros; format the column as text and enter the numbers again. If it is right as it is: --accept order_no=excel_number`, nil},
		"leading zeros as a number": {with(same, header, `<c s="2"><v>42</v></c>`+texts("30", "x")),
			`Orders!A2: column order_no: 42 is stored as a number, and the zeros that the sheet shows in front of it are no part of it`, nil},
		"leading zeros in another column":  {with(same, header, texts("A-1", "30")+`<c s="2"><v>42</v></c>`), `--accept item=excel_number`, nil},
		"16 digits":                        {with(same, header, texts("A-1", "30")+`<c><v>1234567890123456</v></c>`), `Orders!C2: column item: 1234567890123456 is stored as a number, and spreadsheets keep 15 digits of one`, nil},
		"16 digits in order_no":            {with(same, header, `<c><v>1.234567890123456E+15</v></c>`+texts("30", "x")), `--accept order_no=excel_rounded`, nil},
		"16 digits in a column of numbers": {with(same, texts("order_no", "timeout", "n:int"), texts("A-1", "30")+`<c><v>1234567890123456</v></c>`), `--accept n=excel_rounded`, nil},
		"a date":                           {with(same, header, texts("A-1", "30")+`<c s="1"><v>46387</v></c>`), `Orders!C2: column item: 2026-12-31 is stored as a date; it would be sent in this form`, nil},
		"a date in order_no":               {with(same, header, `<c s="1"><v>46387</v></c>`+texts("30", "x")), `--accept order_no=excel_date`, nil},
		"a date in a column of numbers":    {with(same, header, texts("A-1")+`<c s="1"><v>46387</v></c>`+texts("x")), `Orders!B2: column timeout: 2026-12-31 is stored as a date, and the column is of type int`, nil},
		"a date of 1904":                   {with(func(b *xlsxtest.Book) { b.Before = `<workbookPr date1904="1"/>` }, header, texts("A-1", "30")+`<c s="1"><v>44925</v></c>`), "2026-12-31 is stored as a date", nil},
		"a date that is none":              {with(same, header, texts("A-1", "30")+`<c s="1"><v>-1</v></c>`), `"########" is what a spreadsheet shows instead of a value`, nil},
		"a time without a zone":            {with(same, header+texts("_not_before"), good+`<c s="1"><v>80000.5</v></c>`), "Orders!D2: column _not_before", nil},
		"an error":                         {with(same, header, texts("A-1", "30")+`<c t="e"><v>#N/A</v></c>`), `book.xlsx:Orders!C2: column item: "#N/A" is what a spreadsheet shows instead of a value`, nil},
		"an error of a formula":            {with(same, header, texts("A-1")+`<c t="e"><f>1/0</f><v>#DIV/0!</v></c>`), `"#DIV/0!" is not a whole number`, nil},
		"a formula without a value":        {with(same, header, texts("A-1")+`<c><f>SUM(B3)</f></c>`), `Orders!B2: column timeout: the formula has no value that a spreadsheet calculated after the last change; open the workbook in a spreadsheet, and save it`, nil},
		"formulas to be calculated":        {with(func(b *xlsxtest.Book) { b.After = `<calcPr calcId="1" fullCalcOnLoad="1"/>` }, header, texts("A-1")+`<c><f>SUM(B3)</f><v>30</v></c>`), "the formula has no value", nil},
		"twice":                            {with(same, header, good, good), `book.xlsx:Orders!3: column order_no: order_no "A-1" occurs in row 2 already`, nil},
		"a wrong type":                     {with(same, header, texts("A-1", "soon", "x")), `Orders!B2: column timeout: "soon" is not a whole number`, nil},
		"a fraction":                       {with(same, header, texts("A-1")+`<c><v>1.5</v></c>`), `Orders!B2: column timeout: "1.5" is not a whole number`, nil},
		"a cell without a column":          {with(same, header, good+texts("", "stray")), `Orders!E2: the cell has content, and its column has no name in row 1`, nil},
		"a text far to the right":          {with(same, header, good+`<c r="XFD2"><v>1</v></c>`), `Orders!XFD2: the cell has content, and an import reads 2048 columns at most`, nil},
		"no order_no":                      {with(same, texts("a", "timeout"), good), `book.xlsx:Orders!1: there is no column order_no among a, timeout`, nil},
		"a column without a name":          {with(same, texts("order_no", "", "timeout"), good), `book.xlsx:Orders!B1: the column has no name`, nil},
		"a merged header":                  {with(func(b *xlsxtest.Book) { b.Sheets[0] += `<mergeCells><mergeCell ref="C1:D1"/></mergeCells>` }, header, good), `Orders!1: the cells C1:D1 are merged, so row 1 does not name each column`, nil},
		"a merged title": {with(func(b *xlsxtest.Book) { b.Sheets[0] += `<mergeCells><mergeCell ref="A1:C1"/></mergeCells>` }, texts("Orders of May"), header, good),
			`Orders!1: the cells A1:C1 are merged`, nil},
		"no rows at all": {with(same), `book.xlsx:Orders!1: the sheet is empty`, nil},
		"two sheets": {with(func(b *xlsxtest.Book) { b.Sheets = append(b.Sheets, b.Sheets[0]); b.Names = []string{"May", "June"} }, header, good),
			`book.xlsx: the workbook has 2 sheets, and an import reads one: "May", "June"; say which (--sheet NAME)`, nil},
		"no such sheet": {whole, `book.xlsx: the workbook has no sheet "June"; it has "Orders" (--sheet NAME)`, func(o *Options) { o.Sheet = "June" }},
		"a hidden sheet alone": {with(func(b *xlsxtest.Book) {
			b.Sheets = append(b.Sheets, b.Sheets[0])
			b.Names = []string{"hidden:May", "hidden:June"}
		}, header, good),
			`"May" (hidden), "June" (hidden); say which`, nil},
		"macros":               {parts(map[string]string{"xl/vbaProject.bin": "x"}), "the workbook has macros (.xlsm), which are refused here", nil},
		"macros by the type":   {parts(map[string]string{"[Content_Types].xml": `<Types><Override PartName="/xl/workbook.xml" ContentType="application/vnd.ms-excel.sheet.macroEnabled.main+xml"/></Types>`}), "book.xlsx: the workbook has macros", nil},
		"a password":           {encryptedBook(), "the workbook has a password", nil},
		"an old .xls":          {[]byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00W\x00o\x00r\x00k", 500)), "this is an old Excel file (.xls)", nil},
		"a binary workbook":    {parts(map[string]string{"_rels/.rels": `<R><Relationship Id="1" Type="x/officeDocument" Target="xl/workbook.bin"/></R>`}), "binary workbook (.xlsb)", nil},
		"a document":           {zipOf("_rels/.rels", `<R><Relationship Id="1" Type="x/officeDocument" Target="word/document.xml"/></R>`, "word/document.xml", "<x/>"), "this is a Word document; save its table as a workbook", nil},
		"an OpenDocument file": {zipOf("mimetype", "application/vnd.oasis.opendocument.spreadsheet", "content.xml", "<x/>", "META-INF/manifest.xml", "<x/>"), "this is a document of LibreOffice (OpenDocument)", nil},
		"another zip archive":  {zipOf("orders.csv", "order_no,timeout\nA-1,30\n"), "this is a zip archive, and no workbook; unpack it", nil},
		"cut off":              {whole[:len(whole)/2], "its zip archive cannot be read, or is cut off", nil},
		"a damaged part":       {damaged(whole, "xl/worksheets/sheet1.xml"), "the workbook is damaged (in its part xl/worksheets/sheet1.xml)", nil},
		"a missing part":       {parts(map[string]string{"xl/worksheets/sheet1.xml": ""}), "it is missing", nil},
		"no sheets":            {xlsxtest.Book{}.Bytes(), "it lists no sheet with cells", nil},
		"a part twice":         {zipOf("_rels/.rels", "<x/>", "_RELS/.rels", "<x/>"), "it is there twice", nil},
		"a sheet outside":      {parts(map[string]string{"xl/_rels/workbook.xml.rels": `<R><Relationship Id="s0" Type="x/worksheet" Target="https://example.com/x" TargetMode="External"/></R>`}), "it lists no sheet with cells", nil},
		"an entity":            {parts(map[string]string{"xl/worksheets/sheet1.xml": `<!DOCTYPE x [<!ENTITY a "aaaa">]><worksheet/>`}), "document type, which no workbook has", nil},
		"an unknown text":      {with(same, header, `<c t="s"><v>7</v></c>`), "cell A2 has the text number 7, and there are 0", nil},
		"a number beyond all":  {with(same, header, `<c><v>1</v></c><c><v>1e400</v></c>`), `(in its part xl/worksheets/sheet1.xml): cell B2 has "1e400" where a number should be`, nil},
		"rows out of order":    {parts(map[string]string{"xl/worksheets/sheet1.xml": `<worksheet><sheetData><row r="2">` + header + `</row><row r="1">` + good + `</row></sheetData></worksheet>`}), `row "1" stands behind row 2`, nil},
		"a cell out of place":  {with(same, header, `<c r="B2"><v>1</v></c><c r="A2"><v>1</v></c>`), `the cell "A2" is out of its place in row 2`, nil},
		"a type that is none":  {with(same, header, `<c t="x"><v>1</v></c>`), `a cell has the type "x"`, nil},
		"a sheet that is cut":  {parts(map[string]string{"xl/worksheets/sheet1.xml": `<worksheet><sheetData><row r="1">` + header + `</row><row r="2">` + good + `</row>`}), "it ends in the middle", nil},
		"in gzip":              {gzipOf(whole), "a spreadsheet or a zip archive, not text; unpack it, and import the workbook", nil},
		"as CSV":               {whole, "a spreadsheet or a zip archive, not text", func(o *Options) { o.Format = FormatCSV }},
		"text as a workbook":   {[]byte("order_no,timeout\nA-1,30\n"), "this is no workbook (.xlsx)", func(o *Options) { o.Format = FormatXLSX }},
	} {
		t.Run(name, func(t *testing.T) {
			var change []func(*Options)
			if c.change != nil {
				change = append(change, c.change)
			}
			text := refusals(t, openBytes(t, c.content, change...))
			require.Contains(t, text, c.want)
			require.NotContains(t, text, "Orders!C2:2")
		})
	}
}

// TestWorkbookAnswers: a questioned cell that is right is sent as the words of the question
// said.
func TestWorkbookAnswers(t *testing.T) {
	for _, c := range []struct {
		row   string
		field string
		codes []Code
		want  string
	}{
		{`<c s="2"><v>42</v></c>` + texts("30", "x"), "order_no", []Code{CodeExcel}, `{"order_no":"42","timeout":30,"item":"x"}`},
		{`<c><v>1234567890123456</v></c>` + texts("30", "x"), "order_no", []Code{CodeExcel, CodeRounded}, `{"order_no":"1234567890123456","timeout":30,"item":"x"}`},
		{texts("A-1", "30") + `<c s="1"><v>46387.25</v></c>`, "item", []Code{CodeDate}, `{"order_no":"A-1","timeout":30,"item":"2026-12-31T06:00:00"}`},
		{texts("A-1", "30") + `<c t="e"><v>#N/A</v></c>`, "item", []Code{CodeError}, `{"order_no":"A-1","timeout":30,"item":"#N/A"}`},
	} {
		_, got := bodies(t, openBytes(t, book(header, c.row).Bytes(), accepting(c.field, c.codes...)))
		require.Equal(t, []string{c.want}, got)
	}
	// One of two answers leaves the other question.
	require.Contains(t, refusals(t, openBytes(t, book(header, `<c><v>1234567890123456</v></c>`+texts("30", "x")).Bytes(), accepting("order_no", CodeExcel))), "--accept order_no=excel_rounded")
}

// TestWorkbookNumbers: a stored number has no decimal sign to ask about, whatever was said
// of the texts in its column.
func TestWorkbookNumbers(t *testing.T) {
	columns := texts("order_no", "timeout", "price:number")
	_, got := bodies(t, openBytes(t, book(columns, texts("A-1", "30", "1,25"), texts("A-2", "30")+`<c><v>1.234</v></c>`).Bytes(), accepting("price", CodeComma)))
	require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"price":1.25}`, `{"order_no":"A-2","timeout":30,"price":1.234}`}, got)
	require.Contains(t, refusals(t, openBytes(t, book(columns, texts("A-1", "30", "1,25"), texts("A-2", "30", "1.5")).Bytes())), `"1,25" is unclear beside "1.5" in row 3`)
}

// TestWorkbookSays: what a person cannot see in the sheet, or did not write into it, is
// told.
func TestWorkbookSays(t *testing.T) {
	b := xlsxtest.Book{Sheets: []string{`<cols><col min="3" max="4" hidden="1"/></cols><sheetData><row r="1">` + header + `</row>` +
		`<row r="2" hidden="1">` + texts("A-1", "30", "=1+1") + `</row><row r="3">` + texts("A-2") + `<c><f>10*3</f><v>30</v></c>` + texts("x") + `</row>` +
		`<row r="4" hidden="1">` + texts("A-3", "30", "y") + `</row></sheetData><autoFilter ref="A1:C4"/><mergeCells><mergeCell ref="C3:C4"/></mergeCells>`}}
	s, got := bodies(t, openBytes(t, b.Bytes()))
	require.Len(t, got, 3)
	require.Contains(t, got[0], `"item":"=1+1"`)
	require.Equal(t, []string{
		"2 rows are hidden by a filter or by hand, the first is row 2; the import takes them like the others",
		"columns are hidden (C, D); the import takes them like the others",
		"1 cell is a formula, the first is B3; the import takes the value that the spreadsheet calculated last",
		"1 area of cells is merged (C3:C4); only the first cell of a merged area has content, the import takes the others as empty",
	}, s.Sheet.Says())
	require.Equal(t, WarnFormula, s.WarningKinds[0].Code)
	require.Equal(t, []string{"book.xlsx:Orders!2: item: \"=1+1\" is a formula in a spreadsheet; it is sent as text"}, s.Examples)
}

// TestWorkbookSheets: the only visible sheet with content is taken, and another one by its
// name. Which sheet was read belongs to the identity of an import only where somebody said it.
func TestWorkbookSheets(t *testing.T) {
	b := xlsxtest.Book{Names: []string{"hidden:Lists", "Orders", "Empty", "Old orders"}, Sheets: []string{
		xlsxtest.Rows(texts("a")), xlsxtest.Rows(header, texts("A-1", "30", "x")), xlsxtest.Rows(`<c s="0"/>`), "<sheetData/>"}}
	f := openBytes(t, b.Bytes())
	s, got := bodies(t, f)
	require.Equal(t, "Orders", s.Sheet.Name)
	require.Equal(t, []string{`{"order_no":"A-1","timeout":30,"item":"x"}`}, got)
	named := openBytes(t, b.Bytes(), func(o *Options) { o.Sheet = "orders" })
	_, got = bodies(t, named)
	require.Len(t, got, 1)
	require.NotEqual(t, f.Batch, named.Batch)
	require.Contains(t, refusals(t, openBytes(t, b.Bytes(), func(o *Options) { o.Sheet = "Old orders" })), "book.xlsx:'Old orders'!1: the sheet is empty")
	h, err := ReadHead(bytes.NewReader(b.Bytes()), Options{File: "book.xlsx"}, 3)
	require.NoError(t, err)
	require.Equal(t, "Orders", h.Sheet)
	require.Equal(t, []string{"Lists", "Orders", "Empty", "Old orders"}, h.Sheets)
	require.Equal(t, []string{"A-1"}, h.Columns[0].Samples)
	require.True(t, h.Propose().IsZero())
	require.NoError(t, h.Try(Mapping{}))
}

// TestWorkbookRejectsKeepTheirQuestions: a bad row that goes through the rejects file
// uncorrected is as bad as before. As text, the number in its order_no would pass.
func TestWorkbookRejectsKeepTheirQuestions(t *testing.T) {
	f := openBytes(t, book(header,
		`<c><v>42</v></c>`+texts("30", "x"),
		texts("A-2", "30", "good"),
		texts("A-3", "30")+`<c s="1"><v>46387.25</v></c>`,
		texts("A-4")+`<c><f>1</f></c>`+texts("x"),
		texts("A-5", "30")+`<c t="e"><v>#REF!</v></c>`,
		texts("A-6", "30", "x", "stray"),
		texts("A-7", "30")+`<c s="2"><v>1067</v></c>`,
		texts("A-8", "30")+`<c><f>1</f></c>`,
	).Bytes(), skipInvalid)
	s, err := f.Check(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, s.Invalid)
	require.Equal(t, "book.xlsx.rejects.xlsx", f.RejectsName("book.xlsx"))
	var out bytes.Buffer
	require.NoError(t, f.WriteRejects(t.Context(), &out))
	again := openBytes(t, out.Bytes(), skipInvalid)
	back, err := again.Check(t.Context())
	require.NoError(t, err)
	require.Equal(t, 7, back.Rows)
	codesOf := func(s Summary) (codes []Code) {
		for _, bad := range s.Bad {
			codes = append(codes, bad.Code)
		}
		return codes
	}
	require.Equal(t, []Code{CodeExcel, CodeDate, CodeType, CodeError, CodeCells, CodeExcel, CodeError}, codesOf(back))
	h, err := ReadHead(bytes.NewReader(out.Bytes()), Options{File: "x"}, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"A"}, h.Columns[4].Samples, "the column's letter")
	require.Equal(t, []string{"excel_number"}, h.Columns[5].Samples)

	q := openQueue(t)
	for _, as := range []Format{FormatXLSX, FormatCSV} { // and so is one that goes through the results
		out.Reset()
		_, err = f.WriteResults(t.Context(), q, &out, as)
		require.NoError(t, err)
		back, err = openBytes(t, out.Bytes(), skipInvalid).Check(t.Context())
		require.NoError(t, err)
		require.Equal(t, 7, back.Invalid, as)
	}
}

// TestWorkbookResults: the results of a workbook are a workbook, which can be imported again
// with the same orders, or CSV.
func TestWorkbookResults(t *testing.T) {
	q := openQueue(t)
	content := book(header, texts("A-1")+`<c><v>30</v></c>`+texts("=1+1"), texts("007", "30")+`<c><v>12.5</v></c>`, texts("A-3", "30")+`<c s="1"><v>46387</v></c>`,
		texts("A-4", "30")+`<c t="d"><v>2026-01-02T00:00:00</v></c>`).Bytes()
	f := openBytes(t, content, accepting("item", CodeDate))
	s, err := f.Check(t.Context())
	require.NoError(t, err)
	done, err := f.Publish(t.Context(), q, s)
	require.NoError(t, err)
	require.Equal(t, 4, done.Stored)
	work(t, q, 4, nil)
	for _, as := range []Format{FormatXLSX, FormatCSV} {
		var out bytes.Buffer
		tally, err := f.WriteResults(t.Context(), q, &out, as)
		require.NoError(t, err)
		require.Equal(t, Tally{"accepted": 4}, tally)
		require.True(t, f.IsResults(bytes.NewReader(out.Bytes())))
		again := openBytes(t, out.Bytes(), accepting("item", CodeDate))
		var numbers []string
		for i, row := range rowsOf(t, again) {
			require.Equal(t, rowsOf(t, f)[i].Order.BodyHash(), row.Order.BodyHash())
			numbers = append(numbers, row.OrderNo)
			require.Equal(t, "accepted", row.Cells[3])
		}
		require.Equal(t, []string{"A-1", "007", "A-3", "A-4"}, numbers)
	}
	require.False(t, f.IsResults(bytes.NewReader(content)))
	imp, err := imports.ReadImport(t.Context(), q, f.Batch)
	require.NoError(t, err)
	require.Equal(t, "Orders", imp.Sheet)
	same, err := Reopen(bytes.NewReader(content), imp, t.TempDir())
	require.NoError(t, err)
	defer func() { require.NoError(t, same.Close()) }()
	rows := rowsOf(t, same)
	require.Len(t, rows, 4)
	require.ErrorContains(t, (&Summary{Rows: xlsx.MaxRows}).CheckRoom(FormatXLSX), "do not fit into a workbook's sheet")
	require.NoError(t, (&Summary{Rows: xlsx.MaxRows}).CheckRoom(FormatCSV))
}

// TestWorkbookBombs: what would fill the memory is read in little of it, or refused. The
// collector runs early, because what it would leave depends on the tests before this one.
func TestWorkbookBombs(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	most := 200.0 // MB
	if patient.UnderRace {
		most = 2000 // the race detector shadows every byte
	}
	big := func(begin, unit string, n int, end string) func(io.Writer) {
		return func(w io.Writer) {
			_, _ = io.WriteString(w, begin)
			piece := strings.Repeat(unit, 1000)
			for range n / 1000 {
				_, _ = io.WriteString(w, piece)
			}
			_, _ = io.WriteString(w, end)
		}
	}
	sheet := `<worksheet><sheetData><row>` + header + `</row>`
	for name, c := range map[string]struct {
		part string
		fill func(io.Writer)
		want string
	}{
		"a million empty styled rows": {"xl/worksheets/sheet1.xml", big(sheet, `<row><c s="1"/><c s="1"/><c s="1"/></row>`, 1_000_000, `</sheetData></worksheet>`), ""},
		"more rows than a sheet has":  {"xl/worksheets/sheet1.xml", big(sheet, `<row/>`, 1_100_000, `</sheetData></worksheet>`), "it has more than 1048576 rows"},
		"one endless text":            {"xl/worksheets/sheet1.xml", big(sheet+`<row><c t="str"><v>`, "x", 20_000_000, ""), "is longer than"},
		"one endless tag":             {"xl/worksheets/sheet1.xml", big(sheet+`<row x="`, "x", 20_000_000, ""), "is longer than"},
		"one endless row":             {"xl/worksheets/sheet1.xml", big(sheet+`<row>`, `<c><v>1</v></c>`, 1_000_000, ""), "an import reads 2048 columns at most"},
		"texts without end":           {"xl/sharedStrings.xml", big(`<sst>`, `<si/>`, 20_000_000, "</sst>"), "share more than 16777216 texts"},
		"a text of many pieces":       {"xl/sharedStrings.xml", big(`<sst><si>`, `<r><t>0123456789</t></r>`, 1_000_000, ""), "a text is longer than"},
		"deep elements":               {"xl/worksheets/sheet1.xml", big(`<worksheet>`, `<a>`, 1_000_000, ""), "not well formed"},
		"a large description":         {"xl/workbook.xml", big(`<workbook><!--`, "12345678901234567890123456789012345678901234567890-->\n<!--", 1_000_000, ""), "unpacks to more than its limit"},
		"many styles":                 {"xl/styles.xml", big(`<styleSheet><cellXfs>`, `<xf/>`, 1_000_000, ""), "it has too many styles"},
		"a long text in each cell":    {"xl/worksheets/sheet1.xml", big(sheet, `<row><c t="s"><v>0</v></c><c><v>30</v></c><c t="s"><v>1</v></c></row>`, 1000, `</sheetData></worksheet>`), "occurs in row 2 already"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(t.TempDir() + "/bomb.xlsx")
			require.NoError(t, err)
			defer func() { require.NoError(t, f.Close()) }()
			b := book(header)
			b.Sheets[0] = `<sheetData><row>` + header + `</row><row><c t="s"><v>30000000</v></c></row></sheetData>`
			b.Strings = []string{"<t>A-1</t>", "<t>" + strings.Repeat("long ", 60_000) + "</t>"}
			b.Parts = map[string]string{c.part: ""}
			rest := b.Bytes()
			z := zip.NewWriter(f)
			in, err := zip.NewReader(bytes.NewReader(rest), int64(len(rest)))
			require.NoError(t, err)
			for _, part := range in.File {
				require.NoError(t, z.Copy(part))
			}
			w, err := z.Create(c.part)
			require.NoError(t, err)
			c.fill(w)
			require.NoError(t, z.Close())
			file, err := Open(f, Options{File: "bomb.xlsx", Temp: t.TempDir()})
			require.NoError(t, err)
			defer func() { require.NoError(t, file.Close()) }()
			forgetPeak(t)
			before := peak(t)
			s, err := file.Check(t.Context())
			took := peak(t) - before
			t.Logf("%.0f MB", took)
			require.Less(t, took, most, "MB")
			if c.want != "" {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 1_000_000, s.Blank)
		})
	}
}

// TestWorkbookStops: a check that is stopped, or whose disk fails, does not blame the
// workbook.
func TestWorkbookStops(t *testing.T) {
	content := book(header, texts("A-1", "30", "x")).Bytes()
	broken := &brokenDisk{Reader: bytes.NewReader(content)}
	f, err := Open(broken, Options{File: "book.xlsx"})
	require.NoError(t, err)
	broken.err = errors.New("the disk is broken")
	_, err = f.Check(t.Context())
	require.ErrorIs(t, err, broken.err)
	require.NotContains(t, err.Error(), "damaged")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = openBytes(t, content).Check(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

type brokenDisk struct {
	*bytes.Reader
	err error
}

func (b *brokenDisk) ReadAt(p []byte, off int64) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	return b.Reader.ReadAt(p, off)
}

// encryptedBook is the beginning of what a spreadsheet writes for a workbook with a password:
// an old container, with the name of its stream somewhere.
func encryptedBook() []byte {
	name := ""
	for _, c := range "EncryptedPackage" {
		name += string(c) + "\x00"
	}
	return []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + strings.Repeat("\x00", 65_530) + name + strings.Repeat("\xff", 1000))
}

func gzipOf(content []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(content)
	if err = errors.Join(err, z.Close()); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func zipOf(files ...string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err == nil {
			_, err = io.WriteString(w, files[i+1])
		}
		if err != nil {
			panic(fmt.Sprint(files[i], err))
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// damaged changes a byte in the packed data of a part.
func damaged(content []byte, part string) []byte {
	out := bytes.Clone(content)
	at := bytes.Index(out, []byte(part)) + len(part)
	out[at+40] ^= 0xff
	return out
}
