package uploads

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"orderpost/internal/importer"
	"orderpost/internal/jobs"
	"orderpost/internal/order"
)

const (
	// listed is how many bad rows a check remembers in detail. The rejects file has all.
	listed = 100
	// previewed is how many orders a check shows as they would be sent.
	previewed = 3
)

// Check starts the check of an upload with its settings. It reads the whole file, also
// if rows are bad. Its result is Upload.Checked. saw is the Mark of the Look at the
// upload; "" = any.
func (d *Desk) Check(id string, by Person, saw string) error {
	return d.start(id, by, saw, CheckKind, func(ctx context.Context, j *jobs.Job) (any, error) {
		u, err := d.store.Get(id) // nobody changes it while the job runs
		if err != nil {
			return nil, err
		}
		checked, rejected, err := d.check(ctx, j, &u)
		if ctx.Err() != nil {
			return nil, ctx.Err() // stopped: the upload is as it was
		}
		if err != nil {
			return nil, err
		}
		checked.By, checked.At = by, time.Now().UTC()
		checked.Took = checked.At.Sub(j.Started)
		return nil, d.store.note(id, func(u *Upload) {
			u.Checked, u.UsedAt, u.Did = checked, checked.At, did(by, "checked it")
			u.Bytes += rejected - u.Rejected
			u.Rejected = rejected
		})
	})
}

// check checks a file. rejected is the size of the rejects file on disk.
func (d *Desk) check(ctx context.Context, j *jobs.Job, u *Upload) (checked *Checked, rejected int64, err error) {
	f, s, err := d.examine(ctx, j, u, func(o *importer.Options) {
		o.SkipInvalid, o.MaxErrors, o.Past = true, listed, u.Settings.past(time.Now())
	})
	checked = &Checked{Summary: s}
	for _, bad := range s.Bad {
		row := BadRow{Line: bad.Line, Column: bad.Column, Name: bad.Name, Value: bad.Value, Code: bad.Code, Message: bad.Plain()}
		if bad.Sheet != "" {
			row.Place = bad.Place()
		}
		if field, _, ok := bad.Question(); ok {
			row.Accept, row.Or = field, bad.Or()
		}
		checked.Bad = append(checked.Bad, row)
	}
	var fatal *importer.BadRows
	switch {
	case errors.As(err, &fatal):
		last := fatal.Rows[len(fatal.Rows)-1]
		where := fmt.Sprintf("line %d", last.Line)
		if last.Sheet != "" {
			where = last.Place()
		}
		checked.Stopped = where + ": " + last.Plain()
		return checked, 0, nil
	case err != nil && (KindOf(err) != 0 || ctx.Err() != nil):
		return nil, 0, err
	case err != nil: // the file as a whole
		checked.Stopped = importer.Plain(err)
		return checked, 0, nil
	}
	defer f.close()
	checked.Stopped = s.Every
	if s.Rows == 0 {
		checked.Stopped = "the file has no rows"
	}
	first, err := f.Preview(ctx, previewed)
	if err != nil {
		return nil, 0, err
	}
	for _, row := range first {
		checked.First = append(checked.First, order.Clip(string(row.Order.Canonical()), maxLine))
	}
	if s.Invalid > 0 {
		j.Tell(jobs.Progress{Step: Rejecting, Of: u.Size})
		checked.Rejects = f.RejectsName(u.Source())
		rejected, err = d.writeRejects(ctx, u, f)
	}
	return checked, rejected, err
}

// opened is a kept file, opened by the importer.
type opened struct {
	*importer.File
	content *content
}

func (o *opened) close() {
	if o.File != nil {
		_ = o.File.Close()
	}
	_ = o.content.Close()
}

// examine opens and checks an upload with the importer, as enqueue does. If the error
// is nil, the caller must close the file.
func (d *Desk) examine(ctx context.Context, j *jobs.Job, u *Upload, change func(*importer.Options)) (f *opened, s importer.Summary, err error) {
	o, err := u.options()
	if err != nil {
		return nil, s, unusable(u.Source(), err)
	}
	o.Temp, o.Schema = d.store.dir, d.schema
	change(&o)
	return d.inTurn(ctx, j, u, func(c *content) (*importer.File, error) { return importer.Open(c, o) })
}

// inTurn opens an upload by open and checks it, when no other check runs.
func (d *Desk) inTurn(ctx context.Context, j *jobs.Job, u *Upload, open func(*content) (*importer.File, error)) (f *opened, s importer.Summary, err error) {
	select {
	case d.checks <- struct{}{}:
		defer func() { <-d.checks }()
	case <-ctx.Done():
		return nil, s, ctx.Err()
	}
	c, err := d.store.open(u, func(at int64) error {
		j.Move(at)
		return ctx.Err()
	})
	if err != nil {
		return nil, s, err
	}
	f = &opened{content: c}
	j.Tell(jobs.Progress{Step: Reading, Of: u.Size})
	if f.File, err = open(c); err == nil {
		j.Tell(jobs.Progress{Step: Checking, Of: u.Size})
		s, err = f.Check(ctx)
	}
	if err != nil {
		f.close()
		return nil, s, err
	}
	return f, s, nil
}

// writeRejects stores the rejects file in place of an earlier one. It returns its size
// on disk.
func (d *Desk) writeRejects(ctx context.Context, u *Upload, f *opened) (size int64, err error) {
	path := filepath.Join(d.store.folder(u.ID), rejectsFile)
	_ = os.Remove(path + part) // of a console that was killed
	out, err := d.store.create(path + part)
	if err != nil {
		return 0, err
	}
	packer, err := newPacker(out)
	if err == nil {
		err = errors.Join(f.WriteRejects(ctx, packer), packer.Close())
	}
	if err = errors.Join(err, out.close()); err == nil {
		err = d.store.rename(path+part, path)
	}
	if err != nil {
		d.store.used.Add(-out.n)
		_ = os.Remove(path + part)
		return 0, d.store.full(err)
	}
	d.store.used.Add(-u.Rejected)
	return out.n, nil
}
