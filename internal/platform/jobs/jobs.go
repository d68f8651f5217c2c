package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of a registry.
const (
	// atOnce is the number of bounded jobs that run at the same time.
	atOnce = 4
	// keep is the number of jobs that ended and are still listed.
	keep = 200
)

// Jobs runs jobs and remembers those that ended lately. The zero value is not
// usable; see NewJobs.
type Jobs struct {
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu   sync.Mutex
	list []*Job // oldest first
}

// NewJobs returns an empty registry. The caller must call Close.
func NewJobs(ctx context.Context) *Jobs {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	return &Jobs{ctx: ctx, stop: stop}
}

// Close stops the jobs and waits for them.
func (j *Jobs) Close() {
	j.mu.Lock() // no Start is between its look at the context and its job
	j.stop()
	j.mu.Unlock()
	j.work.Wait()
}

// Spec says what a job is.
type Spec struct {
	// Kind groups jobs. By is the person who starts it, Title says what it does.
	Kind, Title, By string
	// Key names what the job works on; "" = nothing that another job could want. Of the
	// jobs with one key, only one runs at a time.
	Key string
	// Unbounded: the job runs however many others do.
	Unbounded bool
	// Once: Start also refuses if a job with the key has ended since After; nil = if one
	// has ever run.
	Once  bool
	After *Job
	// Subject is what the job is about, for whoever shows it.
	Subject any
}

// Job is one run.
type Job struct {
	Spec
	// ID names the job in addresses.
	ID      string
	Started time.Time

	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	state    State
	progress Progress
	result   any
	err      error
	ended    time.Time
	stopper  string
	lacks    string
}

// State says whether a job runs, and how it ended.
type State string

// The states of a job.
const (
	Running State = "running"
	Done    State = "done"
	Stopped State = "stopped"
	Failed  State = "failed"
)

// Progress says how far a job is.
type Progress struct {
	// Step is what it does now.
	Step string
	// Done of Of are through; Of is 0 if nobody knows.
	Done, Of int64
	// Hindrance is why the job does not go on at the moment; "" = it does.
	Hindrance string
}

// Percent returns the progress in percent, at most 100; 0 if nobody knows.
func (p Progress) Percent() int {
	if p.Of <= 0 {
		return 0
	}
	return int(min(100, p.Done*100/p.Of))
}

// BusyError is returned by Start.
type BusyError struct {
	// Job is the job with the same key that runs, or has run; nil if too many others run.
	Job *Job
}

func (e *BusyError) Error() string {
	if e.Job != nil {
		return fmt.Sprintf("%s: %s has started this already, at %s", e.Job.Title, e.Job.By, e.Job.Started.Format(time.RFC3339))
	}
	return fmt.Sprintf("%d jobs run already; wait until one ends, or stop one", atOnce)
}

// ErrClosing is returned by Start while the program ends.
var ErrClosing = errors.New("the program is about to end")

// Start runs a job. run tells its progress to the job. What run returns is kept with it.
// Error: *BusyError, ErrClosing.
func (j *Jobs) Start(spec Spec, run func(context.Context, *Job) (any, error)) (*Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ctx.Err() != nil {
		return nil, ErrClosing
	}
	last := j.last(spec.Key)
	if spec.Key != "" && last != nil && (last.State() == Running || spec.Once && last != spec.After) {
		return nil, &BusyError{last}
	}
	running := 0
	for _, other := range j.list {
		if !other.Unbounded && other.State() == Running {
			running++
		}
	}
	if !spec.Unbounded && running >= atOnce {
		return nil, &BusyError{}
	}
	ctx, cancel := context.WithCancel(j.ctx)
	job := &Job{Spec: spec, ID: strings.ToLower(rand.Text()[:12]), Started: time.Now().UTC(),
		cancel: cancel, done: make(chan struct{}), state: Running}
	j.list = append(j.list, job)
	j.forget()
	j.work.Go(func() {
		defer cancel()
		result, err := run(ctx, job)
		job.end(ctx, result, err)
	})
	return job, nil
}

// forget drops the oldest jobs that have ended, beyond keep.
func (j *Jobs) forget() {
	ended := 0
	for _, job := range slices.Backward(j.list) {
		if job.State() != Running {
			ended++
		}
	}
	j.list = slices.DeleteFunc(j.list, func(job *Job) bool {
		old := job.State() != Running && ended > keep
		if old {
			ended--
		}
		return old
	})
}

// Find returns a job; nil if there is none, or not any more.
func (j *Jobs) Find(id string) *Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, job := range j.list {
		if job.ID == id {
			return job
		}
	}
	return nil
}

// List returns the jobs, newest first.
func (j *Jobs) List() []*Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := slices.Clone(j.list)
	slices.Reverse(list)
	return list
}

// Last returns the newest job with a key; nil if there is none, or not any more.
func (j *Jobs) Last(key string) *Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last(key)
}

func (j *Jobs) last(key string) *Job {
	for _, job := range slices.Backward(j.list) {
		if job.Key == key {
			return job
		}
	}
	return nil
}

// Running returns the job with a key that runs; nil if none does.
func (j *Jobs) Running(key string) *Job {
	if job := j.Last(key); job != nil && job.State() == Running {
		return job
	}
	return nil
}

// Stop asks the job to end. Acts on orders do so between two orders, never in the middle
// of one.
func (b *Job) Stop(by string) {
	b.mu.Lock()
	if b.state == Running && b.stopper == "" {
		b.stopper = by
	}
	b.mu.Unlock()
	b.cancel()
}

// Wait returns when the job has ended, or with ctx.
func (b *Job) Wait(ctx context.Context) error {
	select {
	case <-b.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Tell notes the job's progress.
func (b *Job) Tell(p Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.progress = p
}

// Move notes the progress within a step. What hindered the job is over.
func (b *Job) Move(done int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.progress.Done, b.progress.Hindrance = done, ""
}

// Hinder notes why the job does not go on at the moment.
func (b *Job) Hinder(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.progress.Hindrance = why.Error()
}

// Lack notes what the journal lacks of the job.
func (b *Job) Lack(says string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lacks = says
}

func (b *Job) end(ctx context.Context, result any, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result, b.err, b.ended, b.state = result, err, time.Now(), Done // a preview becomes old by the monotonic clock
	switch {
	case err == nil:
	case ctx.Err() != nil:
		b.state = Stopped
	default:
		b.state = Failed
	}
	close(b.done)
}

// locked reads a field of the job.
func locked[T any](b *Job, field *T) T {
	b.mu.Lock()
	defer b.mu.Unlock()
	return *field
}

// State returns whether the job runs, and how it ended.
func (b *Job) State() State { return locked(b, &b.state) }

// Progress returns how far the job is.
func (b *Job) Progress() Progress { return locked(b, &b.progress) }

// Result returns what run returned; nil while the job runs.
func (b *Job) Result() (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.result, b.err
}

// Ended returns when the job ended; zero while it runs.
func (b *Job) Ended() time.Time { return locked(b, &b.ended) }

// Stopper returns who asked the job to stop; "" = nobody.
func (b *Job) Stopper() string { return locked(b, &b.stopper) }

// Unwritten says what the journal lacks of the job; "" = nothing.
func (b *Job) Unwritten() string { return locked(b, &b.lacks) }
