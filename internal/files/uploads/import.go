package uploads

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"orderpost/internal/approval"
	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Import starts the import of a checked upload, or resumes one that was interrupted.
// The batch, the intents and their ids are those of enqueue with the same file and
// settings, so no order is enqueued twice. saw is the Mark of the Look at the upload;
// "" = any. ctx is for the intention in the journal.
func (d *Desk) Import(ctx context.Context, id string, by Person, saw string, o importer.Sending) error {
	d.mu.Lock()
	u, err := d.asSeen(id, saw)
	d.mu.Unlock()
	switch {
	case err != nil:
		return err
	case d.queue == nil:
		return errors.New("there is no broker to import to")
	case u.Checked == nil:
		return refuse(Unready, "the file is not checked with these settings yet; check it first")
	case u.Checked.Stopped != "":
		return refuse(Unusable, "the file cannot be imported: %s", u.Checked.Stopped)
	case u.Checked.Summary.Invalid > 0 && !o.SkipInvalid:
		return refuse(Unready, "%d rows are bad; correct them and upload the file again, or choose to skip them", u.Checked.Summary.Invalid)
	}
	batch := u.Checked.Summary.Batch
	if other := d.importing(batch); other != "" && other != id {
		return refuse(Busy, "batch %s is being imported from another upload of the same file; wait for that", batch)
	}
	if err := d.idle(id); err != nil {
		return err
	}
	end, err := d.journal(ctx, intention(by, &u, o))
	if err != nil {
		return err
	}
	run := &Import{Batch: batch, By: by, StartedAt: time.Now().UTC(), State: Running, Sending: o}
	err = d.start(id, by, saw, ImportKind, func(ctx context.Context, j *jobs.Job) (any, error) {
		u, err := d.store.update(id, func(u *Upload) { u.Import, u.UsedAt = run, run.StartedAt })
		if err != nil {
			end(ctx, journal.Result{End: journal.Failed, Error: err.Error()})
			return nil, err
		}
		s, ended := d.publish(ctx, j, &u, run)
		result := *run
		result.Summary, result.EndedAt = s, time.Now().UTC()
		result.State, result.Error = how(ctx, j, ended)
		end(ctx, journal.Result{End: endOf(result.State, s.AllFine()), Counts: s.Counts(), Error: result.Error})
		if err := d.store.note(id, func(u *Upload) { u.Import, u.UsedAt, u.Did = &result, result.EndedAt, did(by, "imported it") }); err != nil {
			return nil, err
		}
		return &result, ended
	})
	if err != nil {
		end(ctx, journal.Result{End: journal.Failed, Error: err.Error()})
	}
	return err
}

// importing returns the upload from which a batch is being imported.
func (d *Desk) importing(batch string) string {
	for _, u := range d.store.List() {
		if j := d.Job(u.ID); j != nil && j.Kind == ImportKind && u.Checked != nil && u.Checked.Summary.Batch == batch {
			return u.ID
		}
	}
	return ""
}

// how returns the state of an import that ended with err.
func how(ctx context.Context, j *jobs.Job, err error) (State, string) {
	switch stopper := j.Stopper(); {
	case err == nil:
		return Done, ""
	case errors.Is(err, importer.ErrCancelled):
		return Cancelled, "the import was cancelled; to send what was withdrawn after all, import it again and say that cancelled orders are enqueued again"
	case stopper != "":
		return Interrupted, "stopped by " + stopper
	case ctx.Err() != nil:
		return Interrupted, "its process was stopped"
	case KindOf(err) == Unready:
		return Failed, err.Error()
	case errors.Is(err, importer.ErrDirect):
		return Failed, "imports need approval here, and wait for it in the waiting room: import it without leaving that out"
	case errors.Is(err, importer.ErrOtherContent):
		return Failed, "the batch belongs to other content or another mapping; choose another name for the batch"
	case importer.Final(err), errors.Is(err, importer.ErrUnknownLane):
		return Failed, importer.Plain(err)
	}
	return Interrupted, importer.Plain(err)
}

// The pauses before an import that cannot go on tries again.
const (
	firstPause   = time.Second
	longestPause = 15 * time.Second
)

// publish checks and publishes a file by the code of enqueue. While the broker is out
// of reach, or the queue is full, it tries again: it goes on behind the last confirmed
// row. The own times of rows must not be over when an import begins.
func (d *Desk) publish(ctx context.Context, j *jobs.Job, u *Upload, run *Import) (importer.Summary, error) {
	past := time.Now()
	if began, err := imports.ReadImport(ctx, d.queue, run.Batch); err == nil && began != nil {
		past = u.Checked.At // the rows that are left are as good as those that went before
	}
	f, s, err := d.examine(ctx, j, u, func(o *importer.Options) {
		o.Sending, o.By, o.FullWait = run.Sending, run.By.Name, d.fullWait
		o.Begun = func(ctx context.Context) error { return approval.Upload(ctx, d.queue, run.Batch, run.By.Actor()) }
		o.Past = u.Settings.PastAt(past)
		o.Progress = func(rows int) { j.Move(int64(rows)) }
	})
	if err == nil {
		defer f.close()
	}
	if _, bad := errors.AsType[*importer.BadRows](err); bad || err == nil && s.Invalid > u.Checked.Summary.Invalid { // nobody agreed to leave these out
		return s, refuse(Unready, "the times of some rows are over since the file was checked, so nothing was imported; check it again")
	}
	if err != nil {
		return s, err
	}
	f.content.moved = func(int64) error { return ctx.Err() } // rows count from now on
	j.Tell(jobs.Progress{Step: Importing, Of: int64(s.Rows)})
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		before := j.Progress().Done
		done, err := f.Store(ctx, d.queue, s, func(p importer.Progress) {
			if j.Tell(jobs.Progress{Step: Trying, Done: int64(p.Settled), Of: int64(p.Total)}); p.Ended {
				j.Tell(jobs.Progress{Step: Importing, Done: int64(run.Canary), Of: int64(s.Rows)})
			}
		})
		if err == nil || ctx.Err() != nil || !errors.Is(err, queue.ErrUnreachable) && !errors.Is(err, importer.ErrInterrupted) {
			return done.Summary, err
		}
		j.Hinder(err)
		if j.Progress().Done > before {
			pause = firstPause
		}
		if err := settle.Sleep(ctx, pause); err != nil {
			return done.Summary, err
		}
	}
}

// CancelBatch is imports.CancelBatch that stops the import first if it runs here. The batch may also be one that enqueue imported.
// An import that was done stays so if nothing of it could be withdrawn any more.
func (d *Desk) CancelBatch(ctx context.Context, batch string, by Person) (c imports.Cancelled, err error) {
	if id := d.importing(batch); id != "" { // first, so that it stores nothing afterwards
		if err := d.Stop(ctx, id, by, ""); err != nil {
			return c, err
		}
	}
	if c, err = imports.CancelBatch(ctx, d.queue, batch, by.Name); err != nil {
		return c, fmt.Errorf("cancelling batch %s: %w", batch, err)
	}
	for _, u := range d.store.List() {
		if u.Import == nil || u.Import.Batch != batch || u.Import.State == Done && c.Withdrawn+c.Open == 0 {
			continue
		}
		err = errors.Join(err, d.store.note(u.ID, func(u *Upload) {
			next := *u.Import
			next.State, next.Error = Cancelled, "cancelled by "+by.Name
			u.Import, u.Did = &next, did(by, "cancelled its import")
			u.UsedAt = u.Did.At
		}))
	}
	return c, err
}

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
		checked, grown, err := d.check(ctx, j, &u)
		if ctx.Err() != nil {
			err = ctx.Err() // stopped: the upload is as it was, but for what was written already
		}
		if err != nil {
			if grown != 0 {
				err = errors.Join(err, d.store.note(id, func(u *Upload) { u.Bytes += grown }))
			}
			return nil, err
		}
		checked.By, checked.At = by, time.Now().UTC()
		checked.Took = checked.At.Sub(j.Started)
		return nil, d.store.note(id, func(u *Upload) {
			u.Checked, u.UsedAt, u.Did = checked, checked.At, did(by, "checked it")
			u.Bytes += grown
		})
	})
}

// check checks a file. grown is how many bytes more the upload takes on disk.
func (d *Desk) check(ctx context.Context, j *jobs.Job, u *Upload) (checked *Checked, grown int64, err error) {
	f, s, err := d.examine(ctx, j, u, func(o *importer.Options) {
		o.SkipInvalid, o.MaxErrors, o.Past = true, listed, u.Settings.PastAt(time.Now())
		if u.Then != nil {
			o.Expect = u.Then.Expect
		}
	})
	checked = &Checked{Summary: s}
	for _, bad := range s.Bad {
		row := BadRow{Line: bad.Line, Column: bad.Column, Name: bad.Name, Value: bad.Value, Code: bad.Code, Message: bad.Plain(), Row: bad.Begins, Correctable: bad.Correctable}
		if bad.Sheet != "" {
			row.Place = bad.Place()
		}
		if bad.IsQuestion() {
			row.Accept, row.Or = bad.Field, bad.Or
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
	if checked.Shown = u.Then == nil; checked.Shown { // a person looks at it
		j.Tell(jobs.Progress{Step: Showing, Of: u.Size})
		if grown, err = d.replace(u, gridFile, func(w io.Writer) error { return f.show(ctx, w, checked) }); err != nil {
			return nil, grown, err
		}
	}
	var rejects func(io.Writer) error // none
	if s.Invalid > 0 {
		j.Tell(jobs.Progress{Step: Rejecting, Of: u.Size})
		checked.Rejects = f.RejectsName(u.Source())
		rejects = func(w io.Writer) error { return packed(w, func(w io.Writer) error { return f.WriteRejects(ctx, w) }) }
	}
	more, err := d.replace(u, rejectsFile, rejects)
	return checked, grown + more, err
}

// show writes the rows of a checked file for pages, and takes what a person wants to see of all of them.
func (f *opened) show(ctx context.Context, w io.Writer, checked *Checked) error {
	columns := f.GridColumns()
	rows, err := newGridWriter(w, columns)
	if err != nil {
		return err
	}
	sums := imports.NewSums()
	var last []byte
	err = f.Each(ctx, func(row *importer.Row, bad *importer.RowError) error {
		if bad == nil {
			if last = row.Order.Canonical(); len(checked.First) < previewed {
				checked.First = append(checked.First, order.Clip(string(last), maxLine))
			}
			sums.Add(last, nil)
		}
		return rows.add(f.GridRow(columns, row, bad))
	})
	checked.Last = order.Clip(string(last), maxLine)
	checked.Sums, checked.MoreSums = sums.Columns(checked.Summary.Rows - checked.Summary.Invalid)
	return errors.Join(err, rows.close())
}

// packed writes what write writes, packed.
func packed(w io.Writer, write func(io.Writer) error) error {
	packer, err := newPacker(w)
	if err != nil {
		return err
	}
	return errors.Join(write(packer), packer.Close())
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
	o := u.options()
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

// replace writes a file of an upload in place of an earlier one, or removes that if write is nil. It returns how many bytes
// more that takes.
func (d *Desk) replace(u *Upload, name string, write func(io.Writer) error) (grown int64, err error) {
	path := filepath.Join(d.store.folder(u.ID), name)
	if old, err := os.Stat(path); err == nil {
		grown = -old.Size()
	}
	_ = os.Remove(path + part) // of a console that was killed
	if write == nil {
		if err := os.Remove(path); err != nil {
			return 0, nil //nolint:nilerr // there was none, or it stays and counts
		}
		d.store.used.Add(grown)
		return grown, nil
	}
	out, err := d.store.create(path + part)
	if err != nil {
		return 0, err
	}
	if err = errors.Join(write(out), out.close()); err == nil {
		err = d.store.rename(path+part, path)
	}
	if err != nil {
		d.store.used.Add(-out.n)
		_ = os.Remove(path + part)
		return 0, d.store.full(err)
	}
	d.store.used.Add(grown)
	return grown + out.n, nil
}

// Journaled returns the Journal that writes imports into the fleet's journal. ended is
// told of each act and of the error of its end; the journal may lack a part of it.
func Journaled(j *journal.Journal, ended func(*journal.Act, error)) Journal {
	return func(ctx context.Context, in journal.Intention) (func(context.Context, journal.Result), error) {
		act, err := j.Begin(ctx, in)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, r journal.Result) { ended(act, act.End(ctx, r)) }, nil
	}
}

// endOf returns the end of an import for the journal. fine says that it was done for all orders.
func endOf(s State, fine bool) journal.End {
	switch {
	case s == Interrupted || s == Cancelled:
		return journal.Stopped
	case s == Failed:
		return journal.Failed
	case !fine:
		return journal.Partial
	}
	return journal.Done
}

// intention is what the journal has of an import before it begins.
func intention(by Person, u *Upload, o importer.Sending) journal.Intention {
	in := journal.Intention{About: journal.About{Kind: journal.Import, Actor: by.Actor(), Details: map[string]string{}}}
	detail := func(name, value string) {
		if value != "" {
			in.Details[name] = value
		}
	}
	detail("from", by.From)
	detail("file", u.Source())
	detail("upload", u.ID)
	if c := u.Checked; c != nil {
		in.Batch, in.Expected = c.Summary.Batch, map[string]int{"rows": c.Summary.Rows, "invalid": c.Summary.Invalid}
		for what, n := range map[string]int{"left-out": c.Summary.LeftOut, "corrected": len(u.Settings.Edits)} {
			if n > 0 {
				in.Expected[what] = n
			}
		}
		if text, _ := json.Marshal(u.Settings.Edits); len(u.Settings.Edits) > 0 {
			detail("corrections", fmt.Sprintf("%x", sha256.Sum256(text)))
		}
	}
	for name, on := range map[string]bool{"skip_invalid": o.SkipInvalid, "retry_failed": o.RetryFailed} {
		if on {
			detail(name, strconv.FormatBool(on))
		}
	}
	if !o.Deadline.IsZero() {
		detail("deadline", o.Deadline.UTC().Format(time.RFC3339))
	}
	return in
}

// Actor is the person as the journal has them.
func (p Person) Actor() journal.Actor {
	return journal.Actor{Name: p.Name, Known: journal.Known(p.How)}
}
