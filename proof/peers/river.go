package main

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
)

// insertAtOnce is how many jobs one statement inserts.
const insertAtOnce = 1000

// orderArgs are the arguments of a job.
type orderArgs struct {
	Order string `json:"order"` // its bytes as they are: jsonb would give them back in another form
}

// Kind names the job.
func (orderArgs) Kind() string { return "order" }

// orderWorker posts one order and records the answer, which River stores with the
// job's new state.
type orderWorker struct {
	river.WorkerDefaults[orderArgs]
	*poster
	worked *atomic.Int64
}

// Work handles one job.
func (w *orderWorker) Work(ctx context.Context, job *river.Job[orderArgs]) error {
	a, err := w.post(ctx, []byte(job.Args.Order))
	if err != nil {
		return err // River tries again, after a delay
	}
	w.worked.Add(1)
	return river.RecordOutput(ctx, a)
}

// work starts River, inserts the file's orders while it runs, and returns when every
// outcome is stored.
func work[TTx any](ctx context.Context, o options, driver riverdriver.Driver[TTx], stored func(context.Context) (int, error)) (r result, err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: log})
	if err != nil {
		return r, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return r, err
	}
	poster, err := newPoster(o)
	if err != nil {
		return r, err
	}
	var worked atomic.Int64
	workers := river.NewWorkers()
	river.AddWorker(workers, &orderWorker{poster: poster, worked: &worked})
	client, err := river.NewClient(driver, &river.Config{Logger: log, Workers: workers,
		FetchCooldown: o.cooldown, FetchPollInterval: o.fetchEvery,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: o.slots}}})
	if err != nil {
		return r, err
	}
	if err := client.Start(ctx); err != nil {
		return r, err
	}
	began := time.Now()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return r, err
	}
	r.StartCPUNS = used.Utime.Nano() + used.Stime.Nano()
	n, err := insert(ctx, client, o.file)
	if err != nil {
		return r, err
	}
	for r.Stored < n {
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		if worked.Load() < int64(n) {
			continue // a look at the database would take its time
		}
		if r.Stored, err = stored(ctx); err != nil {
			return r, err
		}
	}
	r.BeganNS, r.EndedNS = began.UnixNano(), time.Now().UnixNano()
	return r, client.Stop(ctx)
}

// insert inserts a job for each line of the file.
func insert[TTx any](ctx context.Context, client *river.Client[TTx], path string) (n int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for more := true; more; {
		var jobs []river.InsertManyParams
		for len(jobs) < insertAtOnce {
			if more = lines.Scan(); !more {
				break
			}
			jobs = append(jobs, river.InsertManyParams{Args: orderArgs{lines.Text()}})
		}
		if len(jobs) == 0 {
			break
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return n, fmt.Errorf("inserting jobs: %w", err)
		}
		n += len(jobs)
	}
	return n, lines.Err()
}
