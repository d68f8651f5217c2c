package console

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// upload sends a file by the form, and returns the page that the browser ends at.
func (b *browser) upload(status int, name string, content io.Reader) answer {
	b.Helper()
	return b.sendForm(status, "/upload", name, func(form *multipart.Writer) error {
		part, err := form.CreateFormFile("file", name)
		if err == nil {
			_, err = io.Copy(part, content)
		}
		return err
	})
}

// paste sends cells by the form, in which no file is chosen.
func (b *browser) paste(status int, cells string) answer {
	b.Helper()
	return b.sendForm(status, "/upload", "cells", func(form *multipart.Writer) error {
		_, err := form.CreateFormFile("file", "")
		if err == nil {
			err = form.WriteField("cells", cells)
		}
		return err
	})
}

func (b *browser) sendForm(status int, to, name string, fill func(*multipart.Writer) error) answer {
	b.Helper()
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		err := fill(form)
		if err == nil {
			err = form.Close()
		}
		_ = w.CloseWithError(err)
	}()
	defer func() { _ = r.Close() }()
	req, err := http.NewRequestWithContext(b.T.Context(), http.MethodPost, b.base+to, r)
	require.NoError(b, err)
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := b.Do(req)
	require.NoError(b, err)
	page, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	require.NoError(b, resp.Body.Close())
	require.Equal(b, status, resp.StatusCode, "%s\n%s", name, page)
	a := answer{resp, string(page)}
	if at := resp.Request.URL.Path; status == http.StatusOK && strings.HasPrefix(at, "/upload/") {
		a.page = b.settled(at) // the check that starts by itself
	}
	return a
}

var field = regexp.MustCompile(`(?s)<(input|textarea|select)[^>]* name="([^"]+)"[^>]*>`)

// columnsForm returns the fields of the columns' form as a browser sends them, with
// changes as name, value.
func columnsForm(t *testing.T, page string, changes ...string) []string {
	t.Helper()
	_, form, found := strings.Cut(page, `/check" class="stack">`)
	require.True(t, found, page)
	form, _, _ = strings.Cut(form, "</form>")
	var out []string
	for _, m := range field.FindAllStringSubmatchIndex(form, -1) {
		kind, name, tag := form[m[2]:m[3]], form[m[4]:m[5]], form[m[0]:m[1]]
		value := ""
		switch kind {
		case "input":
			if strings.Contains(tag, `type="checkbox"`) && !strings.Contains(tag, " checked") {
				continue
			}
			_, value, _ = strings.Cut(tag, ` value="`)
			value, _, _ = strings.Cut(value, `"`)
		case "textarea":
			value, _, _ = strings.Cut(form[m[1]:], "</textarea>")
		case "select":
			options, _, _ := strings.Cut(form[m[1]:], "</select>")
			chosen := regexp.MustCompile(`<option(?: value="([^"]*)")? selected>([^<]*)`).FindStringSubmatch(options)
			if chosen == nil {
				chosen = regexp.MustCompile(`<option(?: value="([^"]*)")?>([^<]*)`).FindStringSubmatch(options)
			}
			if value = chosen[1]; value == "" {
				value = chosen[2]
			}
		}
		out = append(out, name, strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&amp;", "&", "&lt;", "<", "&gt;", ">", "&#43;", "+").Replace(value))
	}
	for i := 0; i < len(changes); i += 2 {
		for k := 0; k < len(out); k += 2 {
			if out[k] == changes[i] {
				out[k+1] = changes[i+1]
			}
		}
	}
	return out
}

// settled opens a page until no job of the upload is left.
func (b *browser) settled(path string) string {
	b.Helper()
	var page string
	require.Eventually(b, func() bool {
		page = b.open(http.StatusOK, path)
		return !strings.Contains(page, "data-events")
	}, patience, 20*time.Millisecond)
	return page
}

// TestUploadStory: an importer uploads a file with mistakes, looks at its columns,
// answers the check, imports it, and saves the results, with plain forms.
func TestUploadStory(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("importer")
	require.Contains(t, text(b.open(http.StatusOK, "/upload")), "Upload a file File of orders")
	content := "Order No;timeout;qty;note\nA-1;30;1;fine\nA-2;30;two;<b>&\nA-3;30;3;=1+1\n31.12.2026;30;1;x\nA-1;30;9;again\n"
	a := b.upload(http.StatusOK, `C:\x\march.csv`, strings.NewReader(content))
	at := a.Request.URL.Path
	require.Contains(t, text(a.page), "The console proposes these names.")
	require.Contains(t, a.page, `value="order_no"`)
	require.Contains(t, a.page, "&lt;b&gt;&amp;", "cells are text")

	// A mistake in the columns is a sentence without flags.
	wrong := columnsForm(t, a.page)
	for i := 0; i < len(wrong); i += 2 {
		if wrong[i] == "field" && wrong[i+1] == "order_no" {
			wrong[i+1] = "number"
		}
	}
	b.send(http.StatusOK, at+"/check", wrong...)
	page := b.settled(at)
	said := text(page)
	require.Contains(t, said, "There is no column order_no; give the column that holds it that name below")
	require.NotContains(t, said, "--")
	require.Contains(t, page, `name="field" value="number"`, "what was typed is still there")

	form := columnsForm(t, page)
	types := 0
	for i := 0; i < len(form); i += 2 {
		switch {
		case form[i] == "field" && form[i+1] == "number":
			form[i+1] = "order_no"
		case form[i] == "type":
			if types++; types == 3 {
				form[i+1] = "int"
			}
		}
	}
	b.send(http.StatusOK, at+"/check", form...)
	page = b.settled(at)
	said = text(page)
	for _, want := range []string{"Rows 5", "Bad rows 3", "1 row: wrong_type, first in line 3", "3 edit line 3 column qty: &#34;two&#34; is not a whole number such as 30 wrong_type", "excel_date",
		"1 row has cells that a spreadsheet would run as formulas: note (first in line 4)", "order_no &#34;A-1&#34; occurs in line 2 already", "Import 2 orders", "Leave the 3 bad rows out"} {
		require.Contains(t, said, want)
	}
	require.NotContains(t, said, "--accept")
	rejects := b.do(http.MethodGet, at+"/rejects", nil)
	require.Equal(t, "attachment; filename*=UTF-8''march.csv.rejects.csv", rejects.Header.Get("Content-Disposition"))
	require.Equal(t, 4, strings.Count(rejects.page, "\n"), rejects.page)
	require.Contains(t, b.do(http.MethodGet, at+"/mapping", nil).page, "Order No: order_no")

	require.Contains(t, text(b.send(http.StatusConflict, at+"/import")), "3 rows are bad; correct them and upload the file again, or choose to skip them.")
	b.send(http.StatusOK, at+"/accept", "field", "order_no", "code", "excel_date")
	page = b.settled(at)
	require.Contains(t, text(page), "Bad rows 2")
	require.Contains(t, page, `value="order_no=excel_date" checked`)
	require.Contains(t, columnsForm(t, page), "order_no=excel_date")
	b.send(http.StatusOK, at+"/import", "skip-invalid", "on", "direct", "on")
	page = b.settled(at)
	require.Contains(t, text(page), "3 Enqueued.")
	require.Contains(t, text(page), "By importer,")
	batch := regexp.MustCompile(`/import\?batch=([0-9a-f]+)`).FindStringSubmatch(page)[1]
	imp, err := imports.ReadImport(t.Context(), r.worker, batch)
	require.NoError(t, err)
	require.Equal(t, "importer", imp.By)

	acts := r.acts()
	require.Len(t, acts, 2)
	require.Equal(t, []any{journal.Export, "importer", map[string]string{"from": "127.0.0.1", "file": "march.csv", "upload": strings.TrimPrefix(at, "/upload/"), "what": "bad rows"}, map[string]int{"exported": 3}},
		[]any{acts[1].Kind, acts[1].Actor.Name, acts[1].Details, acts[1].Result.Counts}, "bad rows have bodies")
	require.Equal(t, journal.Import, acts[0].Kind)
	require.Equal(t, journal.Actor{Name: "importer", Known: journal.Login}, acts[0].Actor)
	require.Equal(t, batch, acts[0].Batch)
	require.Equal(t, map[string]string{"from": "127.0.0.1", "file": "march.csv", "upload": strings.TrimPrefix(at, "/upload/"), "skip_invalid": "true"}, acts[0].Details)
	require.Equal(t, &journal.Result{End: journal.Partial, Counts: map[string]int{"stored": 3, "invalid": 2}}, acts[0].Result)

	// The imports' pages: the open order is counted, then its outcome.
	viewer := r.as("viewer")
	require.Eventually(t, func() bool {
		said = text(viewer.open(http.StatusOK, "/imports"))
		return strings.Contains(said, "march.csv "+batch+" under way importer")
	}, patience, 20*time.Millisecond, said)
	r.pull(3, order.Accepted)
	require.Eventually(t, func() bool {
		said = text(viewer.open(http.StatusOK, "/import?batch="+batch))
		return strings.Contains(said, "Every order has its outcome.")
	}, patience, 20*time.Millisecond)
	require.Contains(t, said, "accepted 3 ")
	require.Contains(t, said, "2 Bad rows, not enqueued.")
	require.NotContains(t, said, "Save the results", "rows are for importers")
	require.Contains(t, text(viewer.do(http.MethodGet, at+"/results", nil).page), "The results of a file needs the role importer")
	require.Contains(t, text(b.open(http.StatusOK, "/import?batch="+batch)), "Save the results")
	results := b.do(http.MethodGet, at+"/results", nil)
	require.Equal(t, http.StatusOK, results.StatusCode)
	require.Equal(t, "attachment; filename*=UTF-8''march.results.csv", results.Header.Get("Content-Disposition"))
	require.Equal(t, 6, strings.Count(results.page, "\n"))
	require.Contains(t, results.page, "A-3;30;3;'=1+1;accepted;", "no spreadsheet runs it")

	last := r.lastAct()
	require.Equal(t, []any{journal.Export, batch, "results", map[string]int{"exported": 5}}, []any{last.Kind, last.Batch, last.Details["what"], last.Result.Counts})

	// Whoever removes a colleague's file reads whose it is, and the journal knows.
	asks := text(r.as("operator").open(http.StatusOK, at+"/remove"))
	require.Contains(t, asks, "importer uploaded it, and you did not.")
	require.Contains(t, text(b.open(http.StatusOK, at)), "Remove the file…", "the question alone removes nothing")
	require.Contains(t, text(b.send(http.StatusOK, at+"/remove", "note", "done with")), "The file march.csv was removed. Orders that were imported from it stay.")
	last = r.lastAct()
	require.Equal(t, []any{journal.Remove, "importer", batch, "march.csv", "done with", journal.Done}, []any{last.Kind, last.Actor.Name, last.Batch, last.Details["file"], last.Note, last.Result.End})
	require.Contains(t, text(b.open(http.StatusOK, "/journal?kind=remove")), "importer remove a file: march.csv: done with")
	require.Contains(t, text(b.open(http.StatusNotFound, at)), "There is no upload")
	require.Contains(t, text(b.open(http.StatusOK, "/import?batch="+batch)), "enqueue results "+batch)
}

// TestAStaleFormOfColumns: what a person said of columns that the file does not have is
// not dropped without a word, and no check begins. Nor does one after a constant without a value.
func TestAStaleFormOfColumns(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	a := b.upload(http.StatusOK, "a.csv", strings.NewReader("Order No;timeout;qty\nA-1;30;1\n"))
	at := a.Request.URL.Path
	a.page = b.settled(at)
	was, err := r.desk.Look(strings.TrimPrefix(at, "/upload/"))
	require.NoError(t, err)
	for what, form := range map[string][]string{
		"another column": columnsForm(t, a.page, "column", "x"),
		"no columns":     {"set", "channel=web"},
	} {
		said := text(b.send(http.StatusConflict, at+"/check", form...))
		require.Contains(t, said, "The columns of the file are not those that your form is about, so what you said of them would be lost. Nothing was done.", what)
	}
	said := text(b.send(http.StatusBadRequest, at+"/check", columnsForm(t, a.page, "set", "channel")...))
	require.Contains(t, said, `Set: &#34;channel&#34; is not NAME=VALUE. Nothing was imported.`)
	now, err := r.desk.Look(strings.TrimPrefix(at, "/upload/"))
	require.NoError(t, err)
	require.Equal(t, was, now, "the file is as the check that started by itself left it")
	b.send(http.StatusOK, at+"/check", columnsForm(t, a.page, "set", "\n \t\n channel = web \r\n")...)
	now, err = r.desk.Look(strings.TrimPrefix(at, "/upload/"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"channel": " web "}, now.Settings.Mapping.Set)
}

// acts reads the journal, newest first.
func (r *rig) acts() (out []journal.Item) {
	r.Helper()
	_, err := journal.All(r.Context(), r.worker, journal.Query{}, func(i journal.Item) bool {
		out = append(out, i)
		return true
	})
	require.NoError(r, err)
	return out
}

// pull settles n orders by a verdict.
func (r *rig) pull(n int, v order.Verdict) {
	r.Helper()
	for n > 0 {
		require.NoError(r, r.worker.Pull(r.Context(), min(n, 500), 5*time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				report := answered(v, 200, "", "")
				_, err := r.worker.Worker.Settle(r.Context(), d, &report, order.Decide(&report, order.Facts{}))
				require.NoError(r, err)
				d.Release()
				n--
			}
		}))
	}
}

// repeated is a reader of n bytes.
type repeated struct{ n int64 }

func (z *repeated) Read(p []byte) (int, error) {
	if z.n <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(p)), z.n)
	z.n -= n
	copy(p, bytes.Repeat([]byte("0"), int(n)))
	return int(n), nil
}

// TestBadUploads: each gets a sentence on a page, whoever sends it and however.
func TestBadUploads(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users, c.UploadTotal = usersFile(t), 1 })
	b := r.as("importer")
	for name, c := range map[string]struct {
		status  int
		content io.Reader
		want    string
	}{
		"report.pdf":                         {http.StatusUnprocessableEntity, strings.NewReader("%PDF-1.7"), "this is a PDF, not text"},
		"empty.csv":                          {http.StatusUnprocessableEntity, strings.NewReader(""), "the file is empty."},
		"large.csv":                          {http.StatusRequestEntityTooLarge, &repeated{20 << 20}, "The file is larger than 1024 KiB, and nothing was kept"},
		"":                                   {http.StatusBadRequest, strings.NewReader("x"), "No file was chosen, and no cells were pasted."},
		"a\x01b.csv":                         {http.StatusBadRequest, strings.NewReader("x"), "The name of the file cannot be read, and nothing was kept."},
		"a\x7f.csv":                          {http.StatusBadRequest, strings.NewReader("x"), "The name of the file cannot be read, and nothing was kept."},
		strings.Repeat("x", 11<<20) + ".csv": {http.StatusBadRequest, strings.NewReader("x"), "The name of the file cannot be read, and nothing was kept."},
	} {
		require.Contains(t, text(b.upload(c.status, name, c.content).page), c.want)
	}
	a := b.do(http.MethodPost, "/upload", map[string][]string{"file": {"x"}})
	require.Equal(t, http.StatusBadRequest, a.StatusCode)
	require.Contains(t, text(a.page), "That was not a form with a file.")

	// A browser that says how long the file is needs not send it.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+"/upload", &repeated{64 << 20})
	require.NoError(t, err)
	req.ContentLength = 64 << 20
	req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := b.Do(req)
	require.NoError(t, err)
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
	require.Contains(t, text(string(page)), "The file is larger than 1024 KiB")

	require.Contains(t, text(r.as("viewer").upload(http.StatusForbidden, "a.csv", strings.NewReader("order_no,timeout\nA,1\n")).page), "Uploading files needs the role importer, and yours is viewer.")
	require.Contains(t, text(r.browser().upload(http.StatusUnauthorized, "a.csv", strings.NewReader("x")).page), "Your login has ended, so nothing was done.")
	require.Empty(t, r.desk.Store().List())
	require.Zero(t, r.desk.Store().Used())

	// A file that no import can read says why on its page, and can be removed.
	a = b.upload(http.StatusOK, "array.csv", strings.NewReader("[{\"order_no\":\"A\"}]"))
	require.Contains(t, text(a.page), "NDJSON has one order a line")
}

// TestColumnsThatWereSaved: the file that a page saves for enqueue arranges the columns of another upload.
func TestColumnsThatWereSaved(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	rows := "order_no,timeout,Menge\nM-%d,30,5\n"
	first := b.upload(http.StatusOK, "a.csv", strings.NewReader(fmt.Sprintf(rows, 1))).Request.URL.Path
	b.send(http.StatusOK, first+"/columns", "text", "rename: {Menge: qty}\ntypes: {qty: int}")
	require.Contains(t, html.UnescapeString(text(b.settled(first))), `"qty":5`)
	saved := b.do(http.MethodGet, first+"/mapping", nil).page

	second := b.upload(http.StatusOK, "b.csv", strings.NewReader(fmt.Sprintf(rows, 2))).Request.URL.Path
	b.sendForm(http.StatusOK, second+"/columns", "mapping", func(form *multipart.Writer) error {
		part, err := form.CreateFormFile("file", "a.csv.mapping.yaml")
		if err == nil {
			_, err = io.WriteString(part, saved)
		}
		return errors.Join(err, form.WriteField("seen", b.seenAt(second, url.Values{})))
	})
	require.Contains(t, html.UnescapeString(text(b.settled(second))), `"qty":5`)

	b.send(http.StatusOK, second+"/columns", "text", "trailer: {value: T}")
	page := b.settled(second)
	require.Contains(t, text(page), "the file ends without its trailer")
	b.send(http.StatusOK, second+"/check", columnsForm(t, page)...)
	page = b.settled(second)
	require.Contains(t, text(page), "the file ends without its trailer", "the form keeps it")
	b.send(http.StatusOK, second+"/check", columnsForm(t, page, "trailer", "")...)
	require.NotContains(t, text(b.settled(second)), "the file ends without its trailer")
	for what, want := range map[string]string{"typos: {qty: int}": "typos", "types: {qty: euro}": "euro", "types: [": "mapping: [1:8]"} {
		require.Contains(t, text(b.send(http.StatusUnprocessableEntity, second+"/columns", "text", what)), want)
	}
}

// TestPastedCells: what a spreadsheet puts on the clipboard is a file like any other.
func TestPastedCells(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	page := text(b.paste(http.StatusOK, "order_no\ttimeout\tnote\r\nP-1\t30\t\"two\r\nlines\"\r\nP-2\t60\tx\r\n").page)
	require.Contains(t, page, "Import 2 orders")
	require.Contains(t, page, "pasted.csv")
	require.Contains(t, text(b.paste(http.StatusBadRequest, "").page), "No file was chosen, and no cells were pasted.")
	require.Len(t, r.desk.Store().List(), 1)
}

// TestFormsAreBounded: only the upload takes more than a form needs, and nobody can
// make the console keep a file without a login.
func TestFormsAreBounded(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.browser()
	body, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		part, _ := form.CreateFormFile("file", "x")
		_, err := io.Copy(part, &repeated{64 << 20})
		_ = w.CloseWithError(err)
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+"/login", body)
	require.NoError(t, err)
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	resp, err := b.Do(req)
	_ = body.Close()
	if err == nil { // the server may also close the connection while the body is sent
		require.NotEqual(t, http.StatusOK, resp.StatusCode)
		_ = resp.Body.Close()
	}
}

// TestProgress: with JavaScript an import streams its progress; a person stops it,
// another resumes it after a restart of the console, and a third cancels it.
func TestProgress(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	var content strings.Builder
	content.WriteString("order_no,timeout\n")
	for i := range 100_000 {
		fmt.Fprintf(&content, "P-%d,30\n", i)
	}
	a := b.upload(http.StatusOK, "big.csv", strings.NewReader(content.String()))
	at := a.Request.URL.Path
	id := strings.TrimPrefix(at, "/upload/")
	b.send(http.StatusOK, at+"/check", columnsForm(t, a.page)...)
	b.settled(at)
	require.NoError(t, r.desk.Import(t.Context(), id, uploads.Person{Name: "anna"}, "", importer.Sending{Direct: true, Rate: 2000}))
	page := b.open(http.StatusOK, at)
	require.Contains(t, page, `data-events="`+at+`/events"`)
	require.Contains(t, page, `hx-trigger="every 3s"`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, b.base+at+"/events", nil)
	require.NoError(t, err)
	resp, err := b.Do(req)
	require.NoError(t, err)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	events := bufio.NewScanner(resp.Body)
	seen := false
	for !seen && events.Scan() {
		seen = strings.Contains(events.Text(), `"text":"Importing: `) && strings.Contains(events.Text(), " of 100,000 rows done.")
	}
	require.True(t, seen)
	require.Eventually(t, func() bool { return strings.Contains(text(b.open(http.StatusOK, "/imports")), "running") },
		time.Minute, 50*time.Millisecond, "the list of imports is read again every few seconds")
	require.Contains(t, text(b.send(http.StatusOK, at+"/stop")), "Stopped. What was enqueued stays")
	for !strings.Contains(events.Text(), "event: end") {
		require.True(t, events.Scan(), "the stream tells the end")
	}
	require.NoError(t, resp.Body.Close())
	require.Contains(t, text(b.open(http.StatusOK, at)), "Stopped by anna. Resume it, or cancel it.")

	r.Server.Stop()
	r.Server = r.console()
	b = r.loggedIn()
	page = b.open(http.StatusOK, at)
	require.Contains(t, page, "Resume the import")
	b.send(http.StatusOK, at+"/import", "resume", "on", "direct", "on")
	batch := regexp.MustCompile(`/import\?batch=([0-9a-f]+)`).FindStringSubmatch(page)[1]
	said := text(b.open(http.StatusOK, "/import/cancel?batch="+batch))
	require.Contains(t, said, "Withdrawn now")
	r.besideWorker(func() {
		b.send(http.StatusOK, "/import/cancel", "batch", batch, "note", "wrong file")
		require.Eventually(t, func() bool {
			said = text(b.open(http.StatusOK, "/import?batch="+batch))
			return strings.Contains(said, "cancelled the import:")
		}, 3*time.Minute, 20*time.Millisecond)
	})
	page = b.settled(at)
	require.Contains(t, text(page), "Cancelled by anna.")
	list := b.open(http.StatusOK, "/jobs") // of all kinds, and each leads to its own page
	require.Contains(t, text(list), "Import big.csv")
	links := regexp.MustCompile(`href="(/jobs/[^"]+)">Cancel import big.csv<`).FindStringSubmatch(list)
	require.Len(t, links, 2)
	require.Contains(t, text(b.open(http.StatusOK, links[1])), "cancelled the import:")
	require.Contains(t, text(b.send(http.StatusConflict, links[1]+"/stop")), "This job cannot be stopped here.")
	c, err := r.worker.Census.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Pending)
	var acts []string
	for _, a := range r.acts() {
		acts = append(acts, fmt.Sprint(a.Kind, " ", a.Actor.Name, " ", a.Result.End, a.Note))
	}
	require.Len(t, acts, 3)
	require.ElementsMatch(t, []string{"cancel anna donewrong file", "import anna stopped", "import anna stopped"}, acts)
	require.Contains(t, text(b.open(http.StatusNotFound, "/import?batch=..%2F")), "Nothing is known about an import")
	require.Contains(t, text(b.open(http.StatusNotFound, "/import")), "Nothing is known about an import")
}

// TestWithoutDataFolder: a console that cannot keep files shows everything else.
func TestWithoutDataFolder(t *testing.T) {
	r := newRig(t)
	first := r.Server
	r.Server = r.console() // on the same folder
	b := r.loggedIn()
	require.Contains(t, text(b.open(http.StatusServiceUnavailable, "/upload")), "This console takes no uploads. Another process uses the folder")
	require.Contains(t, text(b.open(http.StatusOK, "/imports")), "Nothing was imported yet.")
	first.Stop()
}

// TestWhatAnotherImportSent: the rows of an import whose orders another one sent have no
// outcome of their own, and are not under way for ever.
func TestWhatAnotherImportSent(t *testing.T) {
	r := newRig(t)
	b := r.loggedIn()
	require.NoError(t, imports.SaveImport(t.Context(), r.worker, &imports.Import{Batch: "twice", File: "twice.csv", Rows: 2, Done: 2, Counts: map[string]int{"stored": 2}, StartedAt: time.Now().UTC()}))
	res := r.worker.PublishMany(t.Context(), []settle.Intent{{OrderNo: "A-1", Body: []byte(`{"order_no":"A-1","timeout":30}`), ID: "once:1", Batch: "once"}})
	require.NoError(t, res[0].Err)
	var said string
	saying := func(want string) func() bool {
		return func() bool {
			said = text(b.open(http.StatusOK, "/import?batch=twice"))
			return strings.Contains(said, want)
		}
	}
	require.Eventually(t, saying("2 orders have no outcome yet."), time.Minute, 20*time.Millisecond, "one of them may be in the queue")
	r.pull(1, order.Accepted)
	require.Eventually(t, saying("Every order has its outcome. 2 rows have no result any more: it has expired or was lost."), time.Minute, 20*time.Millisecond)
	require.Contains(t, said, "100 %")
	require.Contains(t, text(b.open(http.StatusOK, "/imports")), "settled")
}

// TestBatchCounts: an order counts once, by its present outcome, for the import that
// submitted it last.
func TestBatchCounts(t *testing.T) {
	b := newBatches(nil, zerolog.Nop())
	rec := func(no, id, batch string, o order.Outcome) *order.Record {
		r := &order.Record{OrderNo: no, IntentID: id, Batch: batch}
		r.SetOutcome(o)
		return r
	}
	for _, r := range []*order.Record{
		rec("A", "m:1", "m", order.OutcomeAccepted), rec("A", "m:1", "m", order.OutcomeAccepted), // written again
		rec("B", "m:2", "m", order.OutcomeRejected), rec("B", "replay:1", "m", order.OutcomeNone), rec("B", "replay:1", "m", order.OutcomeAccepted), rec("B", "replay:1", "m", order.OutcomeAccepted),
		rec("C", "m:3", "m", order.OutcomeRejected), rec("C", "n:1", "n", order.OutcomeAccepted), // corrected by another import
		rec("D", "replay:2", "m", order.OutcomeUnknown), rec("D", "replay:3", "m", order.OutcomeExhausted),
		rec("E", "m:4000000000", "m", order.OutcomeRejected), rec("E", "m:4000000000", "m", order.OutcomeRejected),
		rec("F", "x", "", order.OutcomeRejected),
	} {
		b.settle(r)
	}
	m, _, _ := b.look("m")
	require.Equal(t, 4, m.Total())
	require.Equal(t, [...]int{2, 1, 1}, [...]int{m.Outcomes[order.OutcomeAccepted], m.Outcomes[order.OutcomeRejected], m.Outcomes[order.OutcomeExhausted]})
	n, _, _ := b.look("n")
	require.Equal(t, 1, n.Total())

	// Only the last record of an order is stored: it tells what other submissions became.
	moved := rec("G", "n:2", "n", order.OutcomeAccepted)
	moved.Earlier = []order.Earlier{{IntentID: "m:7", Batch: "m"}, {IntentID: "n:1", Batch: "n"}, {IntentID: "x"}}
	b.count(moved)
	b.count(moved)
	m, _, _ = b.look("m")
	n, _, _ = b.look("n")
	require.Equal(t, [...]int{4, 1, 2, 0}, [...]int{m.Total(), m.Elsewhere, n.Total(), n.Elsewhere})
}

// TestBatchCountsAreBounded: a producer that names large row numbers costs no more than
// its results, and they count once when the rows before them have come.
func TestBatchCountsAreBounded(t *testing.T) {
	b := newBatches(nil, zerolog.Nop())
	settle := func(row int, o order.Outcome) {
		r := &order.Record{OrderNo: fmt.Sprint("A-", row), IntentID: fmt.Sprint("m:", row), Batch: "m"}
		r.SetOutcome(o)
		b.settle(r)
	}
	const far = 3 * maxRowGap
	settle(far, order.OutcomeAccepted)
	require.Empty(t, b.all[0].rows)
	for row := range far {
		settle(row+1, order.OutcomeAccepted)
	}
	settle(far, order.OutcomeRejected)
	m, _, _ := b.look("m")
	require.Equal(t, [...]int{far - 1, 1}, [...]int{m.Outcomes[order.OutcomeAccepted], m.Outcomes[order.OutcomeRejected]})
	require.Len(t, b.all[0].rows, far+1)
}

// TestNumbersAreAskedAbout: the check asks what a comma means, and each answer is a button.
func TestNumbersAreAskedAbout(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("importer")
	at := b.upload(http.StatusOK, "prices.csv", strings.NewReader("order_no;timeout;price:number;weight:number\nA-1;30;1,07;1,234\nA-2;30;1.250,10;2,000\n")).Request.URL.Path
	b.send(http.StatusOK, at+"/check", columnsForm(t, b.settled(at))...)
	said := text(b.settled(at))
	require.Contains(t, said, `&#34;1,07&#34; is 1.07 if the column&#39;s decimal sign is the comma, and no number of the column contradicts that decimal_comma`)
	require.Contains(t, said, "1,07 , 1.250,10 The decimal sign of price is the comma")
	require.NotContains(t, said, "--accept")

	b.send(http.StatusOK, at+"/accept", "field", "price", "code", "decimal_comma")
	said = text(b.settled(at))
	require.Contains(t, said, "&#34;1,234&#34; is 1234 if it has a thousands separator, and 1.234 if it has a decimal comma; say which thousands")
	require.Contains(t, said, "weight has thousands separators The decimal sign of weight is the comma")
	b.send(http.StatusOK, at+"/accept", "field", "weight", "code", "decimal_comma")
	require.Contains(t, text(b.settled(at)), "price has thousands separators")
	b.send(http.StatusOK, at+"/accept", "field", "price", "code", "thousands")
	page := b.settled(at)
	require.Contains(t, text(page), "Import 2 orders")
	require.Contains(t, page, "&#34;price&#34;:1.07,&#34;weight&#34;:1.234}")
	require.Contains(t, page, "&#34;price&#34;:1250.1,&#34;weight&#34;:2}")
}

// TestAMessyUpload: the page proposes the row that names the columns, leaves an empty column and a row of totals out, and
// takes corrected cells, each by one press. The results tell what a corrected cell held.
func TestAMessyUpload(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("importer")
	a := b.upload(http.StatusOK, "june.csv", strings.NewReader("Orders of June;;;;\n\nOrder No;timeout;;amount;Notes\nA-1;30;;5;x\nA-2;soon;;7;y\n A-3;30;;8;z\nTotal;;;20;\n"))
	at := a.Request.URL.Path
	page := b.settled(at)
	require.Contains(t, text(page), "Line 3 names the columns, and what is above it is left out")
	require.Contains(t, text(page), "3 bad rows")
	require.Contains(t, page, `name="was" value="soon"`)
	b.send(http.StatusOK, at+"/correct", "line", "5", "column", "2", "was", "soon", "now", "60", "line", "6", "column", "1", "was", " A-3", "now", "A-3", "leave", "7")
	page = b.settled(at)
	require.Contains(t, text(page), "1 row, as you said: 7")
	require.Contains(t, text(page), "2 cells sent otherwise than in the file")
	require.Contains(t, text(page), "Import 3 orders")
	b.send(http.StatusOK, at+"/correct", "line", "6", "column", "1", "was", "A-3", "now", " A-3")
	require.Contains(t, text(b.settled(at)), "1 bad row", "as in the file again")
	b.send(http.StatusOK, at+"/correct", "line", "6", "column", "1", "was", " A-3", "now", "A-3")
	b.settled(at)
	require.Contains(t, b.send(http.StatusBadRequest, at+"/correct", "line", "6", "column", "1", "was", "A-3", "now", strings.Repeat("x", 201)), "one line of up to 200 bytes")
	b.send(http.StatusOK, at+"/import", "direct", "on")
	require.Contains(t, text(b.settled(at)), "3 Enqueued.")
	results := b.do(http.MethodGet, at+"/results", nil).page
	require.Contains(t, results, ";_edited;_outcome;")
	require.Contains(t, results, "A-2;60;7;y;timeout was soon;pending;")
	require.Contains(t, results, "A-3;30;8;z;Order No was  A-3;pending;")
	require.NotContains(t, results, "Total")

	first := b.upload(http.StatusOK, "title.csv", strings.NewReader("order_no,timeout\nB-1,30\nB-2,30\n"))
	page = b.settled(first.Request.URL.Path)
	require.Contains(t, text(page), "The first row names the columns")
	b.send(http.StatusOK, first.Request.URL.Path+"/header", "header-row", "2")
	require.Contains(t, text(b.settled(first.Request.URL.Path)), "there is no column order_no")
	b.send(http.StatusOK, first.Request.URL.Path+"/header", "header-row", "1")
	require.Contains(t, text(b.settled(first.Request.URL.Path)), "Import 2 orders")
}

// TestCorrectWhatFailed: rows that the API rejected are corrected in their place and sent again under their numbers. The
// others are recognised, and not sent.
func TestCorrectWhatFailed(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("importer")
	a := b.upload(http.StatusOK, "march.csv", strings.NewReader("order_no,timeout,sku\nA-1,30,x\nA-2,30,y\n"))
	at := a.Request.URL.Path
	b.settled(at)
	b.send(http.StatusOK, at+"/import", "direct", "on")
	page := b.settled(at)
	require.Contains(t, page, at+"/rows?show=failed")
	require.Contains(t, text(b.open(http.StatusOK, at+"/rows?show=failed")), "No row is one of these, as far as orders have their outcomes.")
	r.pull(1, order.Accepted)
	r.pull(1, order.Rejected)
	queuetest.Drained(t, r.worker)
	page = b.open(http.StatusOK, at+"/rows?show=failed")
	require.Contains(t, text(page), "1 row")
	require.Contains(t, page, `aria-label="sku, line 3"`)
	require.NotContains(t, page, `aria-label="sku, line 2"`, "that one was accepted")
	b.send(http.StatusOK, at+"/correct", "line", "3", "column", "3", "was", "y", "now", "z")
	require.Contains(t, text(b.settled(at)), "1 cell sent otherwise")
	b.send(http.StatusOK, at+"/import", "direct", "on")
	said := text(b.settled(at))
	require.Contains(t, said, "1 Enqueued", "the correction")
	r.pull(1, order.Accepted)
	require.Contains(t, b.do(http.MethodGet, at+"/results", nil).page, "A-2,30,z,sku was y,accepted")
	require.Contains(t, text(b.open(http.StatusOK, at+"/rows?show=failed")), "No row is one of these, as far as orders have their outcomes.")
}

// TestRowsOfAFile: a page shows any rows of a file, those with problems, one with all its cells as fields, and after the
// import those of an outcome.
func TestRowsOfAFile(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("importer")
	var content strings.Builder
	content.WriteString("order_no,timeout,amount\n")
	for i := range 250 {
		fmt.Fprintf(&content, "R-%03d,30,%d.50\n", i, i)
	}
	content.WriteString("R-250,soon,1.00\n")
	at := b.upload(http.StatusOK, "many.csv", strings.NewReader(content.String())).Request.URL.Path
	page := b.settled(at)
	require.Contains(t, text(page), "1 bad row Line Leave out What is wrong order_no timeout amount")
	require.Contains(t, text(page), "amount (text) 31250 250 0")
	page = b.open(http.StatusOK, at+"/rows")
	require.Contains(t, text(page), "Rows 1 to 100 of 251")
	require.Contains(t, page, at+`/rows?from=101"`)
	page = b.open(http.StatusOK, at+"/rows?from=201&edit=250")
	require.Contains(t, text(page), "Rows 201 to 251 of 251")
	require.Contains(t, page, `aria-label="amount, line 250"`)
	require.Contains(t, page, `aria-label="timeout, line 252"`, "the cell that is wrong")
	require.NotContains(t, page, `aria-label="amount, line 251"`)
	require.Contains(t, text(b.open(http.StatusBadRequest, at+"/rows?from=x")), "These rows have no such page.")
	require.Contains(t, text(b.open(http.StatusBadRequest, at+"/rows?show=accepted")), "There are no rows called accepted.")
	b.send(http.StatusOK, at+"/import", "skip-invalid", "on", "direct", "on")
	b.settled(at)
	r.pull(120, order.Accepted)
	require.Contains(t, text(b.open(http.StatusOK, at+"/rows?show=accepted")), "100 rows of these")
	page = b.open(http.StatusOK, at+"/rows?show=accepted&from=101")
	require.Contains(t, text(page), "20 rows of these")
	require.Contains(t, text(page), "121 edit line 121 accepted")
	require.Contains(t, text(b.open(http.StatusOK, at+"/rows?show=not-enqueued")), "252 edit line 252 not-enqueued wrong_type: ")
	require.Contains(t, b.do(http.MethodGet, "/upload/template", nil).Header.Get("Content-Disposition"), "orders.xlsx")
}

// TestAMappingIsRemembered: the second file with the same columns is read as the first one was, also its own results; but
// whether spoiled cells are right is asked anew.
func TestAMappingIsRemembered(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("importer")
	first := b.upload(http.StatusOK, "may.csv", strings.NewReader("Ref;timeout;price;note\nA-1;30;1,50;x\n31.12.2026;30;2,50;y\n")).Request.URL.Path
	form := columnsForm(t, b.open(http.StatusOK, first))
	types := 0
	for i := 0; i < len(form); i += 2 {
		switch {
		case form[i] == "field" && form[i+1] == "Ref":
			form[i+1] = "order_no"
		case form[i] == "type":
			if types++; types == 3 {
				form[i+1] = "number"
			}
		}
	}
	b.send(http.StatusOK, first+"/check", form...)
	b.settled(first)
	for _, answer := range [][]string{{"order_no", "excel_date"}, {"price", "decimal_comma"}} {
		b.send(http.StatusOK, first+"/accept", "field", answer[0], "code", answer[1])
		b.settled(first)
	}
	require.Contains(t, text(b.settled(first)), "Import 2 orders")
	b.send(http.StatusOK, first+"/import", "direct", "on")
	require.Contains(t, text(b.settled(first)), "2 Enqueued.")
	results := b.do(http.MethodGet, first+"/results", nil).page

	second := b.upload(http.StatusOK, "june.csv", strings.NewReader("Ref;timeout;price;note\nA-3;30;3,50;x\n31.01.2027;30;2,50;y\n")).Request.URL.Path
	page := b.settled(second)
	require.Contains(t, text(page), "The columns are read as in may.csv")
	require.Contains(t, text(page), "{&#34;order_no&#34;:&#34;A-3&#34;,&#34;timeout&#34;:30,&#34;price&#34;:3.5,&#34;note&#34;:&#34;x&#34;}")
	require.Contains(t, text(page), "1 bad row", "a date")

	again := b.upload(http.StatusOK, "may.results.csv", strings.NewReader(results)).Request.URL.Path
	require.Contains(t, text(b.settled(again)), "The columns are read as in may.csv")
	other := b.upload(http.StatusOK, "other.csv", strings.NewReader("order_no;timeout;price\nA-4;30;3,50\n")).Request.URL.Path
	require.NotContains(t, text(b.settled(other)), "The columns are read as in")
}
