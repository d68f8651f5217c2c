package console

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
	"orderpost/internal/order"
	"orderpost/internal/testing/xlsxtest"
)

// TestWorkbookStory: somebody uploads a workbook of two sheets, chooses one, sees its bad
// cells by sheet and cell, uploads the corrected workbook, imports it, and saves the results
// as a workbook.
func TestWorkbookStory(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("importer")
	header := xlsxtest.Texts("Order\nNo", "timeout", "item")
	book := func(cell string) *bytes.Reader {
		rows := `<sheetData><row r="1">` + header + `</row><row r="2" hidden="1">` + xlsxtest.Texts("A-1", "30", "x") + `</row><row r="3">` + cell + xlsxtest.Texts("30", "y") + `</row></sheetData>`
		return bytes.NewReader(xlsxtest.Book{Sheets: []string{xlsxtest.Rows(xlsxtest.Texts("old")), rows}, Names: []string{"May", "June & July"}}.Bytes())
	}
	a := b.upload(http.StatusOK, "orders.xlsx", book(`<c><v>42</v></c>`))
	at := a.Request.URL.Path
	require.Contains(t, text(a.page), "the workbook has 2 sheets, and an import reads one")
	require.NotContains(t, text(a.page), "--sheet")
	require.Contains(t, a.page, `<option>June &amp; July</option>`)

	page := b.open(http.StatusOK, at+"?sheet=June+%26+July")
	require.Contains(t, text(page), "Sheet June &amp; July")
	require.Contains(t, page, `value="order_no"`, "a proposal")
	b.send(http.StatusOK, at+"/check", columnsForm(t, page)...)
	page = b.settled(at)
	said := text(page)
	for _, want := range []string{"Read as xlsx, sheet June &amp; July", "1 row: excel_number, first in row 3", "3 edit row 3 column Order No: 42 is stored as a number, which keeps no leading zeros",
		"1 row is hidden by hand, the first is row 2; the import takes them like the others."} {
		require.Contains(t, said, want)
	}
	rejects := b.do(http.MethodGet, at+"/rejects", nil)
	require.Equal(t, "attachment; filename*=UTF-8''orders.xlsx.rejects.xlsx", rejects.Header.Get("Content-Disposition"))
	require.Equal(t, bookType, rejects.Header.Get("Content-Type"))

	a = b.upload(http.StatusOK, "orders.xlsx", book(xlsxtest.Texts("0042")))
	at = a.Request.URL.Path
	b.send(http.StatusOK, at+"/check", columnsForm(t, b.open(http.StatusOK, at+"?sheet=June+%26+July"))...)
	require.Contains(t, text(b.settled(at)), "Import 2 orders")
	b.send(http.StatusOK, at+"/import", "direct", "on")
	require.Contains(t, text(b.settled(at)), "2 Enqueued.")
	r.pull(2, order.Accepted)
	results := b.do(http.MethodGet, at+"/results?as=xlsx", nil)
	require.Equal(t, bookType, results.Header.Get("Content-Type"))
	require.Equal(t, "attachment; filename*=UTF-8''orders.results.xlsx", results.Header.Get("Content-Disposition"))
	h, err := importer.ReadHead(strings.NewReader(results.page), importer.Options{File: "results"}, 2)
	require.NoError(t, err)
	require.Equal(t, importer.FormatXLSX, h.Format)
	require.Equal(t, "June & July", h.Sheet)
	require.Equal(t, []string{"A-1", "0042"}, h.Columns[0].Samples)
	require.Equal(t, []string{"accepted", "accepted"}, h.Columns[3].Samples)
	csv := b.do(http.MethodGet, at+"/results", nil)
	require.Equal(t, csvType, csv.Header.Get("Content-Type"))
	require.Contains(t, csv.page, "0042,30,y,accepted")
}
