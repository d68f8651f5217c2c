package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
)

// export looks at what a file would hold, and returns the path of that preview.
func (b *browser) export(pairs ...string) string {
	b.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	a := b.do(http.MethodPost, "/letters/export", form)
	require.Equal(b, http.StatusOK, a.StatusCode, a.page)
	b.ended(a.Request.URL.Path)
	return a.Request.URL.Path
}

// TestExport: a selection, a group, and all, as a file that comes back as it was; the
// journal names who took it.
func TestExport(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Users = usersFile(t) })
	for i := range 3 {
		r.refuses(fmt.Sprintf("=R-%d", i))
	}
	r.doubts("D-1")
	b := r.as("importer")
	require.Eventually(t, func() bool {
		return strings.Contains(b.open(http.StatusOK, "/letters?reason=rule"), "all 3 that match the filter")
	}, patience, 50e6)
	list := b.open(http.StatusOK, "/letters?reason=rule")
	require.Contains(t, list, "Export…")
	require.NotContains(t, list, "Replay…", "an importer settles no dead letters")

	preview := b.export("which", "all", "filter", "reason=rule")
	page := b.ended(preview)
	require.Contains(t, page, "3 orders can be saved. The dead letters stay.")
	require.Contains(t, page, "Filter reason rule")
	require.NotContains(t, page, "Go on…")
	a := b.do(http.MethodPost, preview+"/save", url.Values{"format": {"ndjson"}})
	require.Equal(t, http.StatusOK, a.StatusCode)
	require.Regexp(t, `^attachment; filename\*=UTF-8''dead-letters-\d{4}-\d\d-\d\d-\d{4}\.ndjson$`, a.Header.Get("Content-Disposition"))
	require.Equal(t, `{"order_no":"=R-0","timeout":30,"secret_field":"of the body"}`+"\n", a.page[:strings.IndexByte(a.page, '\n')+1])
	require.Equal(t, 3, strings.Count(a.page, "\n"))
	act := r.lastAct()
	require.Equal(t, []any{journal.Export, "importer", journal.Done, map[string]int{"exported": 3}, "ndjson"}, []any{act.Kind, act.Actor.Name, act.Result.End, act.Result.Counts, act.Details["format"]})

	a = b.do(http.MethodPost, preview+"/save", url.Values{"format": {"csv"}})
	require.True(t, strings.HasPrefix(a.page, "order_no,timeout,secret_field,_outcome,_reason\n'=R-0,30,of the body,rejected,"), a.page)
	f, err := importer.Open(strings.NewReader(a.page), importer.Options{File: "x.csv"})
	require.NoError(t, err)
	_, err = f.Check(t.Context())
	require.NoError(t, err)
	rows, err := f.Preview(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, `{"order_no":"=R-0","timeout":30,"secret_field":"of the body"}`, string(rows[0].Order.Canonical()))

	chosen := b.export("which", "chosen", "letter", fmt.Sprint(r.letter("D-1").Seq))
	require.Equal(t, 1, strings.Count(b.send(http.StatusOK, chosen+"/save", "format", "ndjson"), "\n"))
	require.Equal(t, 4, strings.Count(b.send(http.StatusOK, b.export("which", "all")+"/save", "format", "ndjson"), "\n"))
	require.Equal(t, 4, r.lettersLeft(), "the letters stay")

	// What goes wrong has a sentence.
	viewer, operator := r.as("viewer"), r.as("operator")
	require.NotContains(t, viewer.open(http.StatusOK, "/letters"), "Export…")
	viewer.send(http.StatusForbidden, "/letters/export", "which", "all")
	viewer.send(http.StatusForbidden, preview+"/save", "format", "csv")
	require.NotContains(t, viewer.open(http.StatusOK, preview), "Save as")
	require.Contains(t, text(b.send(http.StatusBadRequest, preview+"/save", "format", "xlsx")), "Orders are saved as NDJSON or CSV")
	require.Contains(t, text(b.send(http.StatusOK, "/letters/export", "which", "chosen")), "No dead letter was ticked")
	operator.open(http.StatusBadRequest, preview+"/confirm")
	operator.send(http.StatusBadRequest, operator.preview("act", "drop", "which", "all")+"/save", "format", "csv", "seen", "x")
	require.Contains(t, b.ended(b.export("which", "all", "filter", "reason=none+such")), "No dead letter matches, so there is nothing to save.")
	operator.ended(operator.run(operator.preview("act", "drop", "which", "chosen", "letter", fmt.Sprint(r.letter("D-1").Seq)), "count", "1", "note", "old"))
	require.Contains(t, text(b.send(http.StatusConflict, chosen+"/save", "format", "ndjson")), "The dead letters are gone since you looked, so there is nothing to save.")
	r.fillJournal()
	require.Contains(t, text(b.send(http.StatusServiceUnavailable, preview+"/save", "format", "csv")), "Nothing was done, because the journal cannot be written.")
}
