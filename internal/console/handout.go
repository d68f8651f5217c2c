package console

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"path"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
	"orderpost/internal/files/uploads"
	"orderpost/internal/files/xlsx"
)

const (
	csvType  = "text/csv; charset=utf-8"
	bookType = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
)

// download sets the headers of a file to save.
func download(v *visit, name string) {
	kind := map[string]string{".ndjson": "application/x-ndjson", ".yaml": "application/yaml", ".xlsx": bookType}[path.Ext(name)]
	v.w.Header().Set("Content-Type", cmp.Or(kind, csvType))
	v.w.Header().Set("Content-Disposition", "attachment; filename*=UTF-8''"+url.PathEscape(name))
}

// templateFile hands out a workbook with nothing but names of columns: the fields of the schema, or the columns of the file
// that was imported last.
func templateFile(v *visit) error {
	header, err := v.s.desk.Template()
	if err != nil {
		return err
	}
	download(v, "orders.xlsx")
	w, err := xlsx.NewWriter(v.w, "Orders", header)
	if err == nil {
		err = w.Close()
	}
	return streamed(v, err)
}

func mappingFile(v *visit, u *uploads.Look) error {
	download(v, u.Source()+".mapping.yaml")
	return v.s.desk.MappingFile(u.ID, v.w)
}

func rejectsFile(v *visit, u *uploads.Look) error {
	if u.Checked == nil || u.Checked.Rejects == "" {
		return notFound("This upload has no file of bad rows.", "Check it again.")
	}
	return handOutOf(v, u, "bad rows", u.Checked.Rejects, func(w io.Writer) (map[string]int, error) {
		return map[string]int{"exported": u.Checked.Summary.Invalid}, v.s.desk.Rejects(v.Context(), u.ID, w)
	})
}

func resultsFile(v *visit, u *uploads.Look) error {
	as := importer.FormatCSV
	if v.FormValue("as") == string(importer.FormatXLSX) {
		as = importer.FormatXLSX
	}
	return handOutOf(v, u, "results", u.ResultsNameAs(as), func(w io.Writer) (map[string]int, error) {
		tally, err := v.s.desk.ResultsAs(v.Context(), u.ID, w, as)
		rows := 0
		for _, n := range tally {
			rows += n
		}
		return map[string]int{"exported": rows}, err
	})
}

// handOutOf hands out a file with rows of an upload.
func handOutOf(v *visit, u *uploads.Look, what, name string, write func(io.Writer) (map[string]int, error)) error {
	about := journal.About{Kind: journal.Export, Details: map[string]string{"what": what, "file": u.Source(), "upload": u.ID}}
	if u.Import != nil {
		about.Batch = u.Import.Batch
	}
	_, err := handOut(v, about, name, write)
	return err
}

// handOut sends a file with orders. The journal has who took it. sent is false if write wrote
// nothing: the person gets a page.
func handOut(v *visit, about journal.About, name string, write func(io.Writer) (map[string]int, error)) (sent bool, err error) {
	act, err := v.s.journal().Begin(v.within(actTimeout), journal.Intention{About: v.journaled(about)})
	if err != nil {
		return false, unannounced(err)
	}
	out := &late{v: v, name: name}
	counts, err := write(out)
	_ = v.s.unwritten(act, act.End(v.Context(), exported(v.Context(), counts, err))) // the answer is a file
	if out.begun {
		err = streamed(v, err)
	}
	return out.begun, err
}

// exported is what the journal keeps of a file that was handed out.
func exported(ctx context.Context, counts map[string]int, err error) journal.Result {
	r := journal.Result{End: journal.Done, Counts: counts}
	switch {
	case err != nil && ctx.Err() != nil:
		r.End, r.Error = journal.Stopped, "the download was cut off"
	case err != nil:
		r.End, r.Error = journal.Failed, err.Error()
	case counts["left out"] > 0:
		r.End = journal.Partial
	}
	return r
}

// streamed ends a download. A download that failed is cut off, so that nobody takes it
// for complete.
func streamed(v *visit, err error) error {
	if err != nil {
		v.s.log.Warn().Err(err).Str("path", v.URL.Path).Msg("a download of the console failed")
		panic(http.ErrAbortHandler)
	}
	return nil
}

// late sets a download's headers with its first byte.
type late struct {
	v     *visit
	name  string
	begun bool
}

// Write implements io.Writer.
func (l *late) Write(p []byte) (int, error) {
	if !l.begun {
		l.begun = true
		download(l.v, l.name)
	}
	return l.v.w.Write(p)
}
