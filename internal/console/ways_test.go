package console

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
	"orderpost/internal/order"
)

// TestFourClicksImportAFile: Imports, the file, Upload, Import. The check starts by itself.
func TestFourClicksImportAFile(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("importer")
	clicks := 1 // Imports, in the menu
	page := b.open(http.StatusOK, "/imports")
	require.Contains(t, page, `<form class="card upload" method="post" action="/upload"`)
	clicks += 2 // the file, and Upload
	at := b.upload(http.StatusOK, "clean.csv", strings.NewReader("Order No,timeout,qty\nA-1,30,1\nA-2,30,2\n")).Request.URL.Path
	page = b.settled(at)
	require.Contains(t, text(page), "2 rows, all can be sent.")
	require.Contains(t, text(page), "The console proposes these names.", "the check took the names that it proposes, and the page says so")
	clicks++ // Import
	b.send(http.StatusOK, at+"/import", "direct", "on")
	require.Contains(t, text(b.settled(at)), "imported")
	require.Equal(t, 4, clicks)

	// A file whose columns need a person waits for them.
	a := b.upload(http.StatusOK, "odd.csv", strings.NewReader("number,qty\nA-1,1\n"))
	require.Contains(t, text(a.page), "Look at its columns and check it.")
	require.Contains(t, text(a.page), "Check the file")

	// So does one whose encoding nobody knows: the page has a field for what its advice names.
	a = b.upload(http.StatusOK, "bytes.csv", strings.NewReader("order_no,timeout,Gr\xf6\xdfe\nA-1,30,\xff\n"))
	require.Contains(t, text(a.page), "not readable Choose how it is read")
	require.Contains(t, text(a.page), "save the file as UTF-8, or name its encoding")
	b.send(http.StatusOK, a.Request.URL.Path+"/check", "encoding", "windows-1252")
	require.Contains(t, text(b.settled(a.Request.URL.Path)), "1 row, all can be sent.")
	a = b.upload(http.StatusOK, "cells.csv", strings.NewReader("order_no,timeout,x\nA-1,30,\xff\n"))
	b.send(http.StatusOK, a.Request.URL.Path+"/check", columnsForm(t, b.settled(a.Request.URL.Path), "encoding", "macintosh")...)
	require.Contains(t, text(b.settled(a.Request.URL.Path)), "1 row, all can be sent.")

	// A long name is shortened where a button quotes it.
	a = b.upload(http.StatusOK, "long.csv", strings.NewReader("order_no,timeout,"+strings.Repeat("n", 300)+"\nA-1,30,#REF!\n"))
	require.Contains(t, text(b.settled(a.Request.URL.Path)), "this cell of "+strings.Repeat("n", 60)+"…")
	require.NotContains(t, b.as("viewer").open(http.StatusOK, "/imports"), `action="/upload"`)
}

// TestSearch finds orders by the beginning of their number and in any case, batches and
// files by a part of their names, and says how far it looks.
func TestSearch(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	for _, no := range []string{"Web-1", "Web-10", "Other-1"} {
		r.settles(no, answered(order.Accepted, 200, "", "{}"))
	}
	r.refuses("web-2")
	b := r.as("importer")
	b.upload(http.StatusOK, "April orders.csv", strings.NewReader("order_no,qty\nZ-1,1\n"))
	find := func(q string) answer { return b.do(http.MethodGet, "/order?q="+url.QueryEscape(q), nil) }
	var said string
	require.Eventually(t, func() bool { // the index of dead letters is read in the background
		said = text(find("WEB-").page)
		return strings.Contains(said, "web-2")
	}, patience, 20*time.Millisecond)
	for _, no := range []string{"Web-1 ", "Web-10", "web-2 dead letter: rejected"} {
		require.Contains(t, said, no)
	}
	require.NotContains(t, said, "Other-1")
	require.Contains(t, said, "the latest 5,000 results")
	page := find("Web-1").page
	require.Less(t, strings.Index(page, ">Web-1</a>"), strings.Index(page, ">Web-10</a>"), "the whole number comes first")

	require.Equal(t, "no=Other-1", find(" other-1").Request.URL.RawQuery, "the only order that matches is shown at once")
	require.Regexp(t, "^/upload/", find("april").Request.URL.Path)
	require.Contains(t, text(find("nothing of this").page), "Nothing was found.")
	require.Equal(t, http.StatusBadRequest, find(strings.Repeat("x", 300)).StatusCode)
	require.Contains(t, text(b.open(http.StatusOK, "/order")), "Order number, batch or file")
	require.NotContains(t, text(find("<script>alert(1)</script>\u202e").page), "\u202e")
}

// TestTimesAreElements: a time has its value for console.js, and reads as UTC without it.
func TestTimesAreElements(t *testing.T) {
	r := newRig(t)
	r.refuses("B-1")
	b := r.loggedIn()
	for _, path := range []string{"/order?no=B-1", r.letterPath("B-1")} {
		require.Regexp(t, `<time datetime="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ">\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC</time>`, b.open(http.StatusOK, path), path)
	}
}

// TestCommandsAreForATerminal: a command stands behind "For a terminal", and nowhere else.
func TestCommandsAreForATerminal(t *testing.T) {
	r := newRig(t)
	r.refuses("B-1")
	page := r.loggedIn().open(http.StatusOK, "/order?no=B-1")
	require.Contains(t, page, `<code class="command">orderpost deadletter`)
	without := regexp.MustCompile(`(?s)<details class="terminal">.*?</details>`).ReplaceAllString(page, "")
	require.NotContains(t, without, "orderpost deadletter")
	files, err := templateFiles.ReadDir("templates")
	require.NoError(t, err)
	for _, f := range files {
		content, err := templateFiles.ReadFile("templates/" + f.Name())
		require.NoError(t, err)
		require.Equal(t, f.Name() == "parts.html", strings.Contains(string(content), `class="command"`), f.Name())
	}
}

// TestNothingTicked: the person is told beside the buttons, and the filter stays.
func TestNothingTicked(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	r.refuses("B-1")
	b := r.as("operator")
	require.Eventually(t, func() bool {
		return strings.Contains(text(b.open(http.StatusOK, "/letters?outcome=rejected")), "B-1")
	}, patience, 20*time.Millisecond)
	for _, path := range []string{"/letters/act", "/letters/export"} {
		form := url.Values{"act": {"drop"}, "which": {"chosen"}, "filter": {"outcome=rejected"}, "from": {"1"}}
		a := b.do(http.MethodPost, path, form)
		require.Equal(t, http.StatusOK, a.StatusCode)
		query := a.Request.URL.Query()
		require.Equal(t, []string{"rejected", "1"}, []string{query.Get("outcome"), query.Get("from")})
		_, fields, _ := strings.Cut(a.page, `<fieldset id="many">`)
		fields, _, _ = strings.Cut(fields, "</fieldset>")
		require.Contains(t, text(fields), "No dead letter was ticked, so nothing was done.")
	}
	require.Empty(t, r.acts())
}

// TestQuestionsAreCounted: each kind of cells of a field is one question that shows and
// counts them. Cells that a spreadsheet has changed come last and say so.
func TestQuestionsAreCounted(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("importer")
	file := "order_no,timeout,sku,ean\nA-1,30,7,1.23E+12\nA-2,30,8,4.5E+12\nA-3,30,'=9,1\nA-4,30,'=10,1\n"
	at := b.upload(http.StatusOK, "q.csv", strings.NewReader(file)).Request.URL.Path
	page := b.settled(at)
	said := html.UnescapeString(text(page))
	require.Contains(t, said, "2 cells of sku (apostrophe, first in line 4): '=9 , '=10")
	require.Contains(t, said, "2 cells of ean (excel_number, first in line 2): 1.23E")
	require.Less(t, strings.Index(said, "(apostrophe,"), strings.Index(said, "(excel_number,"), "the lossy ones come last")
	require.Contains(t, said, "A spreadsheet has changed these cells")
	require.Contains(t, said, "Send what is left in these 2 cells of ean")

	c := &uploads.Checked{Summary: importer.Summary{Invalid: 500}}
	for i := range 100 {
		c.Bad = append(c.Bad, uploads.BadRow{Line: i + 2, Value: fmt.Sprint("'", i%20), Code: importer.CodeApostrophe, Accept: "sku"})
	}
	q := questions(c)
	require.Len(t, q, 1)
	require.Equal(t, []any{100, true, false, true, 8}, []any{q[0].Rows, q[0].AtLeast, q[0].Lossy, q[0].More, len(q[0].Cells)})
	require.Empty(t, q[0].Leave, "not all rows are known")

	require.Contains(t, said, "Leave these 2 rows out")
	b.send(http.StatusOK, at+"/correct", "leave", "2", "leave", "3")
	said = html.UnescapeString(text(b.settled(at)))
	require.Contains(t, said, "Left out 2 rows, as you said: 2,3")
	require.NotContains(t, said, "excel_number")
}

// TestWarningsCountRows: two warnings of one row are one row.
func TestWarningsCountRows(t *testing.T) {
	for want, kinds := range map[string][]importer.WarningKind{"0": nil, "7": {{Rows: 7}}, "7 to 9": {{Rows: 7}, {Rows: 2}}, "8 to 10": {{Rows: 8}, {Rows: 8}}} {
		require.Equal(t, want, warnedRows(importer.Summary{Rows: 10, Warnings: 99, WarningKinds: kinds}))
	}
}
