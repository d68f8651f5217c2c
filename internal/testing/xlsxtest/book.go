// Package xlsxtest makes workbooks for tests, also ones that no spreadsheet writes. It
// shares no code with package xlsx.
package xlsxtest

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	main = `xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"`
	rel  = `http://schemas.openxmlformats.org/officeDocument/2006/relationships`
	pkg  = `http://schemas.openxmlformats.org/package/2006/relationships`
)

// Book is a workbook in the making.
type Book struct {
	// Sheets are the sheets, by what stands in their element worksheet. Names has their
	// names; the first is Orders if it is empty.
	Sheets []string
	Names  []string
	// Strings are the shared texts, each as what stands in its element si.
	Strings []string
	// Styles is what stands in the element styleSheet, and Workbook what stands in the
	// element workbook around the sheets: Before and After them.
	Styles, Before, After string
	// Parts replaces or adds parts; an empty text removes one.
	Parts map[string]string
}

// Rows returns a sheet with these rows: each is the XML of its cells, in the rows 1, 2, ….
func Rows(rows ...string) string {
	var b strings.Builder
	b.WriteString("<sheetData>")
	for i, row := range rows {
		fmt.Fprintf(&b, `<row r="%d">%s</row>`, i+1, row)
	}
	return b.String() + "</sheetData>"
}

// Texts returns the XML of cells of text.
func Texts(texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(`<c t="inlineStr"><is><t xml:space="preserve">` + escaped.Replace(text) + `</t></is></c>`)
	}
	return b.String()
}

var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Bytes returns the workbook.
func (b Book) Bytes() []byte {
	var out bytes.Buffer
	b.Write(&out)
	return out.Bytes()
}

// Write writes the workbook. It panics if w returns an error.
func (b Book) Write(w io.Writer) {
	parts := map[string]string{
		"[Content_Types].xml": `<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/></Types>`,
		"_rels/.rels":         `<Relationships xmlns="` + pkg + `"><Relationship Id="rId1" Type="` + rel + `/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
		"xl/styles.xml":       `<styleSheet ` + main + `>` + b.Styles + `</styleSheet>`,
	}
	var list, links strings.Builder
	for i, sheet := range b.Sheets {
		name := "Orders"
		if i < len(b.Names) {
			name = b.Names[i]
		} else if i > 0 {
			name = fmt.Sprintf("Sheet%d", i+1)
		}
		state := ""
		if rest, hidden := strings.CutPrefix(name, "hidden:"); hidden {
			name, state = rest, ` state="hidden"`
		}
		fmt.Fprintf(&list, `<sheet name="%s" sheetId="%d"%s r:id="s%d"/>`, escaped.Replace(name), i+1, state, i)
		fmt.Fprintf(&links, `<Relationship Id="s%d" Type="%s/worksheet" Target="worksheets/sheet%d.xml"/>`, i, rel, i+1)
		parts[fmt.Sprintf("xl/worksheets/sheet%d.xml", i+1)] = `<worksheet ` + main + `>` + sheet + `</worksheet>`
	}
	fmt.Fprintf(&links, `<Relationship Id="st" Type="%s/styles" Target="styles.xml"/><Relationship Id="sst" Type="%[1]s/sharedStrings" Target="sharedStrings.xml"/>`, rel)
	parts["xl/workbook.xml"] = `<workbook ` + main + ` xmlns:r="` + rel + `">` + b.Before + `<sheets>` + list.String() + `</sheets>` + b.After + `</workbook>`
	parts["xl/_rels/workbook.xml.rels"] = `<Relationships xmlns="` + pkg + `">` + links.String() + `</Relationships>`
	if len(b.Strings) > 0 {
		var shared strings.Builder
		for _, s := range b.Strings {
			shared.WriteString("<si>" + s + "</si>")
		}
		parts["xl/sharedStrings.xml"] = `<sst ` + main + `>` + shared.String() + `</sst>`
	}
	for name, text := range b.Parts {
		parts[name] = text
	}
	z := zip.NewWriter(w)
	var names []string
	for name := range parts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if parts[name] != "" {
			must(write(z, name, strings.NewReader(parts[name])))
		}
	}
	must(z.Close())
}

func write(z *zip.Writer, name string, text io.Reader) error {
	w, err := z.Create(name)
	if err == nil {
		_, err = io.Copy(w, text)
	}
	return err
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// WriteBig writes a workbook as spreadsheets do, with shared texts: a header and rows. cells
// returns the cells of a row: strings, and everything else as numbers. Its memory grows with
// the number of different texts.
func WriteBig(w io.Writer, rows int, header []string, cells func(i int) []any) {
	z := zip.NewWriter(w)
	defer func() { must(z.Close()) }()
	numbers := make(map[string]int)
	var texts []string
	shared := func(text string) int {
		n, known := numbers[text]
		if !known {
			n = len(texts)
			numbers[text], texts = n, append(texts, text)
		}
		return n
	}
	part, err := z.Create("xl/worksheets/sheet1.xml")
	must(err)
	b := bufio.NewWriterSize(part, 1<<20)
	fmt.Fprintf(b, `<?xml version="1.0" encoding="UTF-8" standalone="yes"?><worksheet %s><sheetData>`, main)
	for i := range rows + 1 {
		var row []any
		if i == 0 {
			for _, name := range header {
				row = append(row, name)
			}
		} else {
			row = cells(i - 1)
		}
		fmt.Fprintf(b, `<row r="%d" spans="1:%d">`, i+1, len(row))
		for c, cell := range row {
			if text, is := cell.(string); is {
				fmt.Fprintf(b, `<c r="%c%d" s="1" t="s"><v>%d</v></c>`, 'A'+c, i+1, shared(text))
			} else {
				fmt.Fprintf(b, `<c r="%c%d"><v>%v</v></c>`, 'A'+c, i+1, cell)
			}
		}
		_, _ = b.WriteString("</row>")
	}
	_, _ = b.WriteString("</sheetData></worksheet>")
	must(b.Flush())
	part, err = z.Create("xl/sharedStrings.xml")
	must(err)
	b.Reset(part)
	fmt.Fprintf(b, `<sst %s uniqueCount="%d">`, main, len(texts))
	for _, text := range texts {
		_, _ = b.WriteString("<si><t>" + escaped.Replace(text) + "</t></si>")
	}
	_, _ = b.WriteString("</sst>")
	must(b.Flush())
	rest := Book{Sheets: []string{""}, Parts: map[string]string{"xl/worksheets/sheet1.xml": ""}}
	in, err := zip.NewReader(bytes.NewReader(rest.Bytes()), int64(len(rest.Bytes())))
	must(err)
	for _, f := range in.File {
		must(z.Copy(f))
	}
}
