package uploads

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"orderpost/internal/importer"
	"orderpost/internal/queue"
)

// Desk runs the checks and imports of uploads as jobs, one at a time for each upload.
// The caller must call Close.
type Desk struct {
	store   *Store
	queue   *queue.Queue
	journal Journal
	// fullWait is importer.Options.FullWait. A test shortens it.
	fullWait time.Duration
	stop     context.CancelFunc
	ctx      context.Context
	work     sync.WaitGroup
	// checks lets one check run at a time: a check keeps every core busy.
	checks chan struct{}

	mu   sync.Mutex
	jobs map[string]*job
	// failed holds why the last job of an upload could not write its result.
	failed map[string]error
}

// Act is what a person does with an upload, for the journal.
type Act struct {
	// Kind is "import" or "cancel".
	Kind   string
	By     Person
	Batch  string
	Upload Upload
	// Note says why, in the person's words.
	Note string
	ImportOptions
}

// Ended is how an act ended.
type Ended struct {
	State State
	// Counts counts the orders by what became of them.
	Counts map[string]int
	// Partial says that the act is done, but not for all orders.
	Partial bool
	Error   string
}

// Journal writes the intention of an act and returns the function that writes its
// result. If it returns an error, the act does not happen.
type Journal func(ctx context.Context, a Act) (end func(context.Context, Ended), err error)

// NewDesk returns a desk. A nil queue lets it check files, but not import them. A nil
// journal is none.
func NewDesk(s *Store, q *queue.Queue, j Journal) *Desk {
	if j == nil {
		j = func(context.Context, Act) (func(context.Context, Ended), error) {
			return func(context.Context, Ended) {}, nil
		}
	}
	d := &Desk{store: s, queue: q, journal: j, checks: make(chan struct{}, 1), jobs: make(map[string]*job), failed: make(map[string]error)}
	d.ctx, d.stop = context.WithCancel(context.Background())
	d.work.Go(d.sweep)
	return d
}

// Store returns the desk's store.
func (d *Desk) Store() *Store { return d.store }

// sweepEvery is the interval between two looks for uploads that nobody needs.
const sweepEvery = time.Minute

func (d *Desk) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		for _, id := range d.store.Expired(time.Now()) {
			_ = d.Remove(id) // what is in use, or cannot be removed, is tried again
		}
		select {
		case <-tick.C:
		case <-d.ctx.Done():
			return
		}
	}
}

// Close stops the jobs and waits for them. Imports can be resumed.
func (d *Desk) Close() {
	d.stop()
	d.work.Wait()
}

// Phase says what a job does.
type Phase string

// The phases of a job, in order.
const (
	Waiting    Phase = "waiting"  // for another check
	Reading    Phase = "reading"  // the whole file, for its fingerprint
	Checking   Phase = "checking" // reading it again, row by row
	Rejecting  Phase = "rejects"  // writing the rejects file
	Importing  Phase = "importing"
	Hindered   Phase = "hindered" // the broker is out of reach, or the queue is full
	Cancelling Phase = "cancelling"
)

// Progress is the progress of a job.
type Progress struct {
	Import    bool // or a check
	By        Person
	StartedAt time.Time
	Phase     Phase
	// Done and Total count rows while importing, otherwise bytes.
	Done, Total int64
	// Hindrance is why the job does not go on at the moment.
	Hindrance string
}

// Share returns how much of its phase a job has done, from 0 to 1.
func (p *Progress) Share() float64 {
	if p.Total <= 0 {
		return 0
	}
	return min(1, float64(p.Done)/float64(p.Total))
}

// job is a check or an import under way.
type job struct {
	stop context.CancelFunc
	done chan struct{}

	mu sync.Mutex
	p  Progress
	// stopped is set when a person stopped the job.
	stopped bool
	by      Person // who stopped it
}

func (j *job) enter(phase Phase, total int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.p.Phase, j.p.Done, j.p.Total, j.p.Hindrance = phase, 0, total, ""
}

// moved notes the progress within a phase.
func (j *job) moved(done int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.p.Done = done; j.p.Phase == Hindered {
		j.p.Phase, j.p.Hindrance = Importing, ""
	}
}

// rows returns how many rows an import has done.
func (j *job) rows() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.p.Done
}

// stopper returns who stopped the job.
func (j *job) stopper() (by Person, stopped bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.by, j.stopped
}

func (j *job) hinder(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.p.Phase, j.p.Hindrance = Hindered, err.Error()
}

// start runs a job unless the upload has one.
func (d *Desk) start(id string, by Person, isImport bool, run func(context.Context, *job) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.jobs[id]; j != nil {
		return busy(j)
	}
	if d.ctx.Err() != nil {
		return errors.New("the console is stopping")
	}
	ctx, stop := context.WithCancel(d.ctx)
	j := &job{stop: stop, done: make(chan struct{}), p: Progress{Import: isImport, By: by, StartedAt: time.Now().UTC(), Phase: Waiting}}
	d.jobs[id] = j
	delete(d.failed, id)
	d.work.Go(func() {
		defer stop()
		err := run(ctx, j)
		d.mu.Lock()
		if delete(d.jobs, id); err != nil {
			d.failed[id] = err
		}
		d.mu.Unlock()
		close(j.done)
	})
	return nil
}

func busy(j *job) error {
	what := "is being checked"
	if j.p.Import { // never changes
		what = "is being imported"
	}
	return refuse(Busy, "the upload %s already, for %s since %s; wait for that, or stop it", what, j.p.By.Name, j.p.StartedAt.Format(time.TimeOnly+"Z"))
}

// Progress returns the progress of an upload's job. ok is false if it has none.
func (d *Desk) Progress(id string) (p Progress, ok bool) {
	d.mu.Lock()
	j := d.jobs[id]
	d.mu.Unlock()
	if j == nil {
		return p, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.p, true
}

// Busy reports whether an upload has a job.
func (d *Desk) Busy(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.jobs[id] != nil
}

// Failure returns why the last job of an upload has no result, such as a full disk;
// nil = it has one, or there was no job.
func (d *Desk) Failure(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed[id]
}

// Wait waits until an upload has no job.
func (d *Desk) Wait(ctx context.Context, id string) error {
	d.mu.Lock()
	j := d.jobs[id]
	d.mu.Unlock()
	if j == nil {
		return nil
	}
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stop stops an upload's job and waits for its end. An import that was stopped can be
// resumed. What it enqueued stays.
func (d *Desk) Stop(ctx context.Context, id string, by Person) error {
	d.mu.Lock()
	j := d.jobs[id]
	d.mu.Unlock()
	if j == nil {
		return nil
	}
	j.mu.Lock()
	j.stopped, j.by = true, by
	j.mu.Unlock()
	j.stop()
	return d.Wait(ctx, id)
}

// Remove removes an upload that has no job.
func (d *Desk) Remove(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.jobs[id]; j != nil {
		return busy(j)
	}
	delete(d.failed, id)
	return d.store.Remove(id)
}

// Head reads the beginning of an upload.
func (d *Desk) Head(id string, rows int) (*importer.Head, error) {
	u, err := d.store.Get(id)
	if err != nil {
		return nil, err
	}
	o, err := u.options()
	if err != nil {
		return nil, err
	}
	c, err := d.store.open(&u, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return importer.ReadHead(c, o, rows)
}

// Arrange sets how to read an upload. The error says what is wrong with the settings
// for this file; nothing is changed then. An earlier check does not count any more.
func (d *Desk) Arrange(id string, set Settings) error {
	u, err := d.store.Get(id)
	if err != nil {
		return err
	}
	u.Settings = set
	o, err := u.options()
	if err == nil && set.Batch != "" {
		err = importer.CheckBatch(set.Batch)
	}
	if err != nil {
		return refuse(Unusable, "%w", err)
	}
	c, err := d.store.open(&u, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	h, err := importer.ReadHead(c, o, 0)
	if err == nil {
		err = h.Try(set.Mapping)
	}
	if err != nil {
		return refuse(Unusable, "%w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if j := d.jobs[id]; j != nil {
		return busy(j)
	}
	_, err = d.store.update(id, func(u *Upload) {
		u.Settings, u.Checked, u.UsedAt = set, nil, time.Now().UTC()
	})
	return err
}

// MappingFile writes an upload's mapping as a file for enqueue --mapping.
func (d *Desk) MappingFile(id string, w io.Writer) error {
	u, err := d.store.Get(id)
	if err != nil {
		return err
	}
	return u.Settings.Mapping.Write(w, u.command())
}
