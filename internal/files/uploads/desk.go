package uploads

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"orderpost/internal/audit/journal"
	"orderpost/internal/files/importer"
	"orderpost/internal/order"
	"orderpost/internal/order/schema"
	"orderpost/internal/platform/jobs"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// Desk runs the checks and imports of uploads as jobs, one at a time for each upload.
// The caller must close the jobs, and then the desk.
type Desk struct {
	store   *Store
	queue   *queue.Queue
	jobs    *jobs.Jobs
	journal Journal
	schema  *schema.Schema // nil = none
	// fullWait is importer.Options.FullWait. A test shortens it.
	fullWait time.Duration
	stop     context.CancelFunc
	ctx      context.Context
	work     sync.WaitGroup
	// checks lets one check run at a time: a check keeps every core busy.
	checks chan struct{}

	mu sync.Mutex // what a person does to an upload goes by what they saw of it
}

// Journal writes the intention of an import and returns the function that writes its
// result. If it returns an error, the import does not happen.
type Journal func(ctx context.Context, in journal.Intention) (end func(context.Context, journal.Result), err error)

// NewDesk returns a desk that runs its work among the jobs. A nil queue lets it check
// files, but not import them. A nil journal is none.
func NewDesk(s *Store, q *queue.Queue, all *jobs.Jobs, j Journal) *Desk {
	if j == nil {
		j = func(context.Context, journal.Intention) (func(context.Context, journal.Result), error) {
			return func(context.Context, journal.Result) {}, nil
		}
	}
	d := &Desk{store: s, queue: q, jobs: all, journal: j, checks: make(chan struct{}, 1)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.work.Go(d.sweep)
	return d
}

// CheckBy makes the desk check orders against a schema, which may be nil. Call it before
// the desk has work.
func (d *Desk) CheckBy(schema *schema.Schema) { d.schema = schema }

// Store returns the desk's store.
func (d *Desk) Store() *Store { return d.store }

const (
	// sweepEvery is the interval between two looks for uploads that nobody needs.
	sweepEvery = time.Minute
	// sweepWait is how long an upload must be found unused before it goes. A clock that
	// jumped ahead makes all of them look old, and is set right within that time.
	sweepWait = time.Hour
)

// unused tells which uploads have been found unused for sweepWait.
type unused map[string]time.Time // since when, by the monotonic clock

// due returns which of the uploads that are found unused now may go.
func (w unused) due(found []string, now time.Time) (out []string) {
	for id := range w {
		if !slices.Contains(found, id) {
			delete(w, id)
		}
	}
	for _, id := range found {
		since, known := w[id]
		switch {
		case !known:
			w[id] = now
		case now.Sub(since) >= sweepWait:
			out = append(out, id)
		}
	}
	return out
}

func (d *Desk) sweep() {
	wait := make(unused)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		now := time.Now()
		fetched, unused := d.store.Expired(now)
		for _, id := range append(fetched, wait.due(unused, now)...) {
			_ = d.Remove(id, "") // what is in use, or cannot be removed, is tried again
		}
		select {
		case <-tick.C:
		case <-d.ctx.Done():
			return
		}
	}
}

// Close ends the desk.
func (d *Desk) Close() {
	d.mu.Lock() // no carryOut is between its look at the context and its work
	d.stop()
	d.mu.Unlock()
	d.work.Wait()
}

// The kinds of jobs. Their subject is the id of the upload.
const (
	CheckKind  = "check"
	ImportKind = "import"
)

// The steps of a job, in order.
const (
	Waiting   = ""         // for another check
	Reading   = "reading"  // the whole file, for its fingerprint
	Checking  = "checking" // reading it again, row by row
	Showing   = "showing"  // reading it once more, for the pages that show its rows
	Rejecting = "rejects"  // writing the rejects file
	Importing = "importing"
	Trying    = "trying" // the first orders are sent, before the rest is enqueued
)

// start runs a job unless the upload has one, or is not as the person saw it. A result
// of nil says that the job did not come to one.
func (d *Desk) start(id string, by Person, saw, kind string, run func(context.Context, *jobs.Job) (any, error)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.idle(id); err != nil {
		return err
	}
	u, err := d.asSeen(id, saw)
	if err != nil {
		return err
	}
	title := map[string]string{CheckKind: "Check ", ImportKind: "Import "}[kind] + u.Name
	_, err = d.jobs.Start(jobs.Spec{Kind: kind, Title: title, By: by.Name, Key: key(id), Unbounded: true, Subject: id}, run)
	return err
}

// key is the key of an upload's jobs.
func key(id string) string { return "upload " + id }

// idle returns an error if an upload has a job.
func (d *Desk) idle(id string) error {
	j := d.Job(id)
	if j == nil {
		return nil
	}
	what := "is being checked"
	if j.Kind == ImportKind {
		what = "is being imported"
	}
	return refuse(Busy, "the upload %s already, for %s since %s; wait for that, or stop it", what, j.By, j.Started.Format(time.TimeOnly+"Z"))
}

// Job returns the job that an upload has; nil if it has none.
func (d *Desk) Job(id string) *jobs.Job { return d.jobs.Running(key(id)) }

// Failure returns why the last job of an upload has no result, such as a full disk;
// nil = it has one, or was stopped, or there was no job.
func (d *Desk) Failure(id string) error {
	if j := d.jobs.Last(key(id)); j != nil && j.State() == jobs.Failed {
		if result, err := j.Result(); result == nil {
			return err
		}
	}
	return nil
}

// Wait waits until an upload has no job.
func (d *Desk) Wait(ctx context.Context, id string) error {
	if j := d.Job(id); j != nil {
		return j.Wait(ctx)
	}
	return nil
}

// Stop stops an upload's job and waits for its end. An import that was stopped can be
// resumed. What it enqueued stays. saw is the Mark of the Look at the job; "" = whichever
// runs.
func (d *Desk) Stop(ctx context.Context, id string, by Person, saw string) error {
	d.mu.Lock()
	j := d.Job(id)
	_, err := d.asSeen(id, saw)
	d.mu.Unlock()
	if err != nil || j == nil {
		return err
	}
	j.Stop(by.Name)
	return j.Wait(ctx)
}

// Remove removes an upload that has no job. saw is the Mark of the Look at it; "" = any.
func (d *Desk) Remove(id, saw string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.idle(id); err != nil {
		return err
	}
	if _, err := d.asSeen(id, saw); err != nil {
		return err
	}
	return d.store.Remove(id)
}

// HeadAt reads the beginning of an upload, of a sheet of a workbook, with the names in a row; "" and 0 = those of the settings.
func (d *Desk) HeadAt(id, sheet string, header, rows int) (*importer.Head, error) {
	u, c, err := d.openAt(id, sheet)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	u.Settings.HeaderRow = cmp.Or(header, u.Settings.HeaderRow)
	return importer.ReadHead(c, u.options(), rows)
}

// openAt opens an upload for a sheet of a workbook; "" = that of the settings.
func (d *Desk) openAt(id, sheet string) (u Upload, c *content, err error) {
	if u, err = d.store.Get(id); err == nil {
		u.Settings.Sheet = cmp.Or(sheet, u.Settings.Sheet)
		c, err = d.store.open(&u, nil)
	}
	return u, c, err
}

// Top reads the first rows of an upload, and returns the line of the one that seems to name the columns; 0 = the first
// row does.
func (d *Desk) Top(id, sheet string, rows int) (top []importer.TopRow, header int, err error) {
	u, c, err := d.openAt(id, sheet)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = c.Close() }()
	return importer.ReadTop(c, u.options(), rows)
}

// Template returns the names of columns for a new file: the fields of the order schema, else the columns of the file that
// was imported last, else what every order needs.
func (d *Desk) Template() ([]string, error) {
	if fields := d.schema.Fields(); len(fields) > 0 {
		return fields, nil
	}
	for _, u := range d.store.List() {
		if u.Import == nil || u.Checked == nil || !u.Checked.Shown {
			continue
		}
		g, err := d.openGrid(u.ID)
		if err != nil {
			return nil, err
		}
		columns := g.Columns
		g.close()
		if columns[0].Column == 0 {
			continue // NDJSON has none
		}
		var names []string
		for _, c := range columns {
			names = append(names, c.Name)
		}
		return names, nil
	}
	return []string{order.FieldOrderNo, order.FieldTimeout}, nil
}

// Fits returns what is wrong with settings for an upload, as far as the beginning of the file tells.
func (d *Desk) Fits(id string, set importer.Reading) error {
	u, err := d.store.Get(id)
	if err != nil {
		return err
	}
	u.Settings = set
	if set.Batch != "" {
		if err := importer.CheckBatch(set.Batch); err != nil {
			return unusable(u.Source(), err)
		}
	}
	c, err := d.store.open(&u, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	h, err := importer.ReadHead(c, u.options(), 0)
	if err == nil {
		err = h.Try(set.Mapping)
	}
	if err != nil {
		return unusable(u.Source(), err)
	}
	return nil
}

// Arrange sets how to read an upload. An earlier check does not count any more; the next one says what is wrong with the
// settings. saw is the Mark of the Look at the upload; "" = any. now is the one after the change.
func (d *Desk) Arrange(id string, by Person, saw string, set importer.Reading) (now string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.idle(id); err != nil {
		return "", err
	}
	if _, err := d.asSeen(id, saw); err != nil {
		return "", err
	}
	u, err := d.store.update(id, func(u *Upload) {
		u.Settings, u.Checked, u.Did = set, nil, did(by, "changed its columns")
		u.UsedAt = u.Did.At
	})
	return mark(u, nil), err
}

// MappingFile writes an upload's mapping as a file for enqueue --mapping.
func (d *Desk) MappingFile(id string, w io.Writer) error {
	u, err := d.store.Get(id)
	if err != nil {
		return err
	}
	return u.Settings.Mapping.Write(w, u.command())
}

// Submit sets how to read an upload, has it checked, and has it imported if the check
// found nothing wrong. It returns once that is stored; Resume goes on with it in the next
// process. The error says what is wrong with the settings for this file.
func (d *Desk) Submit(id string, by Person, set importer.Reading, o importer.Sending) error {
	err := d.Fits(id, set)
	if err == nil {
		_, err = d.Arrange(id, by, "", set)
	}
	if err != nil {
		return err
	}
	if _, err := d.store.update(id, func(u *Upload) { u.Then = &o }); err != nil {
		return err
	}
	d.carryOut(id)
	return nil
}

// Resume goes on with the uploads that were submitted to an earlier process.
func (d *Desk) Resume() {
	for _, u := range d.store.List() {
		if u.Then != nil {
			d.carryOut(u.ID)
		}
	}
}

// Leave makes Submit's work on an upload end with the job that runs.
func (d *Desk) Leave(id string) error {
	return d.store.note(id, func(u *Upload) { u.Then = nil })
}

// carryOut takes the steps of a submitted upload. A step that cannot begin, because the
// journal cannot be written or another upload has the same content, is tried again.
func (d *Desk) carryOut(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return // Resume takes it up in the next process
	}
	d.work.Go(func() {
		for pause := firstPause; d.ctx.Err() == nil; pause = min(2*pause, longestPause) {
			done, err := d.step(id)
			if done {
				return
			}
			if err == nil {
				pause = firstPause
				continue
			}
			_ = settle.Sleep(d.ctx, pause)
		}
	})
}

// step takes the next step of a submitted upload and waits for its end. done says that
// none is left.
func (d *Desk) step(id string) (done bool, err error) {
	u, err := d.store.Get(id)
	if err != nil || u.Then == nil {
		return true, nil //nolint:nilerr // it was removed
	}
	switch {
	case u.Checked == nil:
		if err = d.Check(id, u.By, ""); err == nil {
			err = d.Wait(d.ctx, id)
		}
		return d.Failure(id) != nil, err
	case u.Checked.Wrong() || u.Import != nil && u.Import.State != Interrupted:
		return true, nil
	}
	if err = d.Import(d.ctx, id, u.By, "", *u.Then); err == nil {
		err = d.Wait(d.ctx, id)
		done = true // an import that was interrupted goes on in the next process
	}
	return done, err
}

// Wrong reports whether the check found something to correct or to answer.
func (c *Checked) Wrong() bool { return c.Stopped != "" || c.Summary.Invalid > 0 }
