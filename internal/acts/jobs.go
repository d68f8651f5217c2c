package acts

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
	// atOnce is the number of jobs that run at the same time.
	atOnce = 4
	// keep is the number of jobs that ended and are still listed.
	keep = 100
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
	j.stop()
	j.work.Wait()
}

// Spec says what a job is.
type Spec struct {
	// Kind groups jobs. By is the person who starts it, Title says what it does.
	Kind, Title, By string
	// Alone: no other job of the kind may run.
	Alone bool
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
	Done, Of uint64
}

// Percent returns the progress in percent, at most 100; 0 if nobody knows.
func (p Progress) Percent() int {
	if p.Of == 0 {
		return 0
	}
	return int(min(100, p.Done*100/p.Of))
}

// BusyError is returned by Start.
type BusyError struct {
	// Job is the job of the same key that runs already; nil if too many others run.
	Job *Job
}

func (e *BusyError) Error() string {
	if e.Job != nil {
		return fmt.Sprintf("%s: this runs already, since %s, started by %s", e.Job.Title, e.Job.Started.Format(time.RFC3339), e.Job.By)
	}
	return fmt.Sprintf("%d jobs run already; wait until one ends, or stop one", atOnce)
}

// ErrClosing is returned by Start while the program ends.
var ErrClosing = errors.New("the program is about to end")

// Start runs a job. tell notes its progress. run's result is kept with the job.
// Error: *BusyError, ErrClosing.
func (j *Jobs) Start(spec Spec, run func(ctx context.Context, tell func(Progress)) (any, error)) (*Job, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ctx.Err() != nil {
		return nil, ErrClosing
	}
	running := 0
	for _, other := range j.list {
		if other.State() != Running {
			continue
		}
		if running++; spec.Alone && other.Kind == spec.Kind {
			return nil, &BusyError{other}
		}
	}
	if running >= atOnce {
		return nil, &BusyError{}
	}
	ctx, cancel := context.WithCancel(j.ctx)
	job := &Job{Spec: spec, ID: strings.ToLower(rand.Text()[:12]), Started: time.Now().UTC(),
		cancel: cancel, done: make(chan struct{}), state: Running}
	j.list = append(j.list, job)
	j.forget()
	j.work.Go(func() {
		defer cancel()
		result, err := run(ctx, job.tell)
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

// Last returns the newest job of a kind; nil if there is none.
func (j *Jobs) Last(kind string) *Job {
	for _, job := range j.List() {
		if job.Kind == kind {
			return job
		}
	}
	return nil
}

// Stop asks the job to end. It does so between two orders, never in the middle
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

func (b *Job) tell(p Progress) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.progress = p
}

func (b *Job) end(ctx context.Context, result any, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.result, b.err, b.ended, b.state = result, err, time.Now().UTC(), Done
	switch {
	case err == nil:
	case ctx.Err() != nil:
		b.state = Stopped
	default:
		b.state = Failed
	}
	close(b.done)
}

// State returns whether the job runs, and how it ended.
func (b *Job) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// Progress returns how far the job is.
func (b *Job) Progress() Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.progress
}

// Result returns what run returned; nil while the job runs.
func (b *Job) Result() (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.result, b.err
}

// Ended returns when the job ended; zero while it runs.
func (b *Job) Ended() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended
}

// Stopper returns who asked the job to stop; "" = nobody.
func (b *Job) Stopper() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopper
}
