package console

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/settle"
)

// freeRoutes are the forms that need not carry what their page showed. Whoever adds one
// writes its reason into the route.
var freeRoutes = []string{"POST /login", "POST /login/link", "POST /logout", "POST /refresh", "POST /books", "POST /books/stop", "POST /jobs/{id}/stop", "POST /upload", "POST /letters/{seq}/correct"}

// form is a form that works, and what a person in between does so that it must not.
type form struct {
	path   string
	fields []string
	// meanwhile is what somebody else does; nil = the form is sent with another mark.
	meanwhile func()
	// says is what whoever sends the form then learns.
	says string
}

// values are the form's fields.
func (f form) values() url.Values {
	values := url.Values{}
	for i := 0; i+1 < len(f.fields); i += 2 {
		values.Add(f.fields[i], f.fields[i+1])
	}
	return values
}

// TestEveryFormCarriesWhatItShows: each route of a form has one that works in this table,
// and refuses it with 409 and a link to look again if it carries nothing, or something that
// has changed since. Nothing is done then.
func TestEveryFormCarriesWhatItShows(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	b := r.as("chief")
	bo := uploads.Person{Name: "bo"}
	file := func(name string) (id, at string) {
		a := b.upload(http.StatusOK, name, strings.NewReader("order_no,timeout,amount,total\n"+name+",30,1.00,100\n"))
		at = a.Request.URL.Path
		b.send(http.StatusOK, at+"/check", columnsForm(t, a.page)...)
		b.settled(at)
		return strings.TrimPrefix(at, "/upload/"), at
	}
	// another person reads the column "total" as the amount, and checks again.
	remap := func(id string) func() {
		return func() {
			u, err := r.desk.Look(id)
			require.NoError(t, err)
			set := u.Settings
			set.Mapping = importer.Mapping{Rename: map[string]string{"amount": "old", "total": "amount"}}
			_, err = r.desk.Arrange(id, bo, "", set)
			require.NoError(t, err)
			require.NoError(t, r.desk.Check(id, bo, ""))
			require.NoError(t, r.desk.Wait(t.Context(), id))
		}
	}
	for _, no := range []string{"A-1", "A-2", "A-3", "A-4"} {
		r.doubts(no)
	}
	r.refuses("B-1")
	resolvedBy := func(no string) func() {
		return func() {
			_, err := r.worker.Operator.Resolve(t.Context(), no, "", order.OutcomeAccepted, settle.Person{Name: "bo", Note: "seen"})
			require.NoError(t, err)
		}
	}
	hold := func() {
		b.confirmed(http.StatusOK, "/fleet/hold", "reason", "lunch")
	}
	preview := b.preview("act", "drop", "which", "chosen", "letter", r.seq("B-1"))
	survey := b.export("which", "chosen", "letter", r.seq("B-1"))
	first, at := file("C-1")
	_, mapped := file("C-2")
	columns := columnsForm(t, b.open(http.StatusOK, mapped))
	require.Equal(t, "seen", columns[0])
	columns = columns[2:]
	b.send(http.StatusOK, mapped+"/import")
	b.settled(mapped)
	batch := regexp.MustCompile(`/import\?batch=([0-9a-f]+)`).FindStringSubmatch(b.open(http.StatusOK, mapped))[1]

	const changed = "has changed since you opened its page: bo checked it at "
	table := map[string]form{
		"POST /upload/{id}/import":    {at + "/import", nil, remap(first), changed},
		"POST /upload/{id}/check":     {mapped + "/check", columns, nil, ""},
		"POST /upload/{id}/columns":   {mapped + "/columns", []string{"text", "types: {amount: number}"}, nil, ""},
		"POST /upload/{id}/header":    {mapped + "/header", []string{"header-row", "1"}, nil, ""},
		"POST /upload/{id}/correct":   {mapped + "/correct", []string{"line", "2", "column", "3", "was", "1.00", "now", "2.00"}, nil, ""},
		"POST /upload/{id}/accept":    {mapped + "/accept", []string{"field", "order_no", "code", "excel_date"}, nil, ""},
		"POST /upload/{id}/remove":    {at + "/remove", nil, remap(first), "The upload has changed since you opened the page. Bo checked it at "},
		"POST /upload/{id}/stop":      {at + "/stop", nil, remap(first), changed},
		"POST /import/cancel":         {"/import/cancel", []string{"batch", batch}, func() { began(t, r, batch) }, "bo began to cancel this import at "},
		"POST /import/pause":          {"/import/pause", []string{"batch", batch}, nil, "It is not held by anybody now."},
		"POST /import/resume":         {"/import/resume", []string{"batch", batch}, func() { require.NoError(t, imports.PauseImport(t.Context(), r.worker, batch, "bo")) }, "It is held by bo"},
		"POST /approval/approve":      {"/approval/approve", []string{"batch", batch}, nil, "What waits of this import is not what your page showed."},
		"POST /approval/refuse":       {"/approval/refuse", []string{"batch", batch, "note", "x"}, nil, "What waits of this import is not what your page showed."},
		"POST /letters/{seq}/replay":  {r.letterPath("A-1") + "/replay", []string{"note", "x", "typed", "A-1"}, nil, "What is known about this order has changed since you opened the page."},
		"POST /letters/{seq}/resolve": {r.letterPath("A-2") + "/resolve", []string{"as", "rejected", "note", "x"}, resolvedBy("A-2"), ""},
		"POST /letters/{seq}/drop":    {r.letterPath("A-3") + "/drop", nil, resolvedBy("A-3"), ""},
		"POST /letters/act":           {"/letters/act", []string{"act", "drop", "which", "all"}, nil, "The list that this form comes from does not exist any more"},
		"POST /letters/export":        {"/letters/export", []string{"which", "all"}, nil, "The list that this form comes from does not exist any more"},
		"POST /jobs/{id}/confirm":     {preview + "/confirm", []string{"count", "1", "note", "x"}, nil, "This is not the preview that you have seen."},
		"POST /jobs/{id}/save":        {survey + "/save", []string{"format", "ndjson"}, nil, "This is not the export that you have looked at."},
		"POST /fleet/hold":            {"/fleet/hold", nil, hold, "It is held by chief since "},
		"POST /fleet/resume":          {"/fleet/resume", nil, hold, "It is held by chief since "},
		"POST /fleet/limit":           {"/fleet/limit?limit=5", []string{"limit", "5"}, hold, "It is held by chief since "},
	}
	for _, rt := range routes() {
		if !strings.HasPrefix(rt.pattern, "POST ") {
			continue
		}
		free := slices.Contains(freeRoutes, rt.pattern)
		require.Equal(t, free, rt.free != "", "%s: the list of forms that need nothing and the route must agree", rt.pattern)
		f, listed := table[rt.pattern]
		require.True(t, free != listed, "%s: add a form that works to this table", rt.pattern)
		if free {
			continue
		}
		t.Run(rt.pattern, func(t *testing.T) {
			send := func(seen string) string {
				before := len(r.acts())
				page := b.send(http.StatusConflict, f.path, append(slices.Clone(f.fields), "seen", seen)...)
				require.Contains(t, page, ">Look again</a>")
				for _, act := range r.acts()[:len(r.acts())-before] { // but those of the test itself
					require.Equal(t, journal.Hold, act.Kind)
				}
				return text(page)
			}
			require.Contains(t, send(""), "This form does not say what its page showed, so nothing was done.")
			seen := "999999999"
			if f.meanwhile != nil {
				seen = b.seenAt(f.path, f.values())
				require.NotEmpty(t, seen, "the page of the form carries nothing")
				f.meanwhile()
			}
			page := send(seen)
			require.Contains(t, page, f.says)
			require.Regexp(t, "(?i)nothing was done", page)
		})
	}
}

// began lets bo cancel an import.
func began(t *testing.T, r *rig, batch string) {
	t.Helper()
	_, err := r.jobs.Start(jobs.Spec{Kind: cancelKind, Key: cancelKey(batch), Unbounded: true, By: "bo", Subject: batch},
		func(context.Context, *jobs.Job) (any, error) { return imports.Cancelled{}, nil })
	require.NoError(t, err)
}
