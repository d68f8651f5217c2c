package uploads

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"orderpost/internal/files/importer"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/platform/jobs"
)

// Results writes every row of an imported upload with the outcome of its order. When
// every order has its outcome, the results are final: the upload is removed after
// Config.Grace.
func (d *Desk) Results(ctx context.Context, id string, w io.Writer) (importer.Tally, error) {
	return d.ResultsAs(ctx, id, w, importer.FormatCSV)
}

// ResultsAs is Results in a format: CSV, or a workbook.
func (d *Desk) ResultsAs(ctx context.Context, id string, w io.Writer, as importer.Format) (importer.Tally, error) {
	tally, err := d.writeResults(ctx, id, w, as)
	if err == nil {
		_, err = d.store.update(id, func(u *Upload) {
			u.UsedAt = time.Now().UTC()
			if tally.Open() == 0 && u.Import.State != Running && u.Import.State != Interrupted {
				u.FetchedAt = u.UsedAt
			}
		})
	}
	return tally, err
}

// Count counts the rows of an imported upload by the outcomes of their orders. It reads
// the whole file. What Results writes goes to w; nil = nowhere.
func (d *Desk) Count(ctx context.Context, id string, w io.Writer) (importer.Tally, error) {
	return d.writeResults(ctx, id, w, importer.FormatCSV)
}

func (d *Desk) writeResults(ctx context.Context, id string, w io.Writer, as importer.Format) (importer.Tally, error) {
	u, f, checked, err := d.reopen(ctx, id)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if err := checked.CheckRoom(as); err != nil {
		return nil, unusable(u.Name, err).of(u.Name)
	}
	return f.WriteResults(ctx, d.queue, w, as)
}

// reopen opens an upload as it was imported, and checks it. If the error is nil, the caller must close the file.
func (d *Desk) reopen(ctx context.Context, id string) (u Upload, f *opened, checked importer.Summary, err error) {
	if u, err = d.store.Get(id); err != nil {
		return u, nil, checked, err
	}
	if u.Import == nil {
		return u, nil, checked, refuse(Unready, "the file was not imported, so it has no results")
	}
	imp, err := imports.ReadImport(ctx, d.queue, u.Import.Batch)
	if err == nil && imp == nil {
		err = refuse(Gone, "nothing is known about the import %s any more", u.Import.Batch)
	}
	if err != nil {
		return u, nil, checked, err
	}
	f, checked, err = d.inTurn(ctx, new(jobs.Job), &u, func(c *content) (*importer.File, error) {
		return importer.Reopen(c, imp, d.store.dir)
	})
	return u, f, checked, err
}

// IsBook reports whether an upload that was checked is a workbook.
func (u *Upload) IsBook() bool {
	return u.Checked != nil && u.Checked.Summary.Format == importer.FormatXLSX
}

// ResultsNameAs returns the name of an upload's results file in a format.
func (u *Upload) ResultsNameAs(as importer.Format) string {
	name := u.Source()
	for _, ending := range []string{".gz", ".zst", ".csv", ".txt", ".ndjson", ".jsonl", ".xlsx"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name + ".results." + string(as)
}

// Rejects writes the bad rows that the check of an upload found, with what is wrong
// with each.
func (d *Desk) Rejects(ctx context.Context, id string, w io.Writer) error {
	u, err := d.store.Get(id)
	if err != nil {
		return err
	}
	if u.Checked == nil || u.Checked.Rejects == "" {
		return refuse(Unready, "the check of %s found no bad rows, or is not done", u.Name)
	}
	f, err := os.Open(filepath.Join(d.store.folder(id), rejectsFile))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	text, err := newUnpacker(f)
	if err != nil {
		return err
	}
	defer text.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.Close() })
	defer stop()
	_, err = io.Copy(w, text)
	return err
}

// command describes how enqueue imports the file with the same settings.
func (u *Upload) command() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The mapping of %s, for:\n  orderpost enqueue --mapping THIS_FILE%s FILE", u.Source(), u.Settings.Flags())
	if n := len(u.Settings.Edits); n > 0 {
		fmt.Fprintf(&b, "\nCells that were corrected in the console: %d. They are not part of a mapping: correct them in the file.", n)
	}
	return b.String()
}
