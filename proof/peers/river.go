package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/rivermigrate"
)

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

// onRiver starts River, and inserts the file's orders while it runs.
func onRiver[TTx any](ctx context.Context, o options, driver riverdriver.Driver[TTx], stored func(context.Context) (int, error)) (r result, err error) {
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
	r, err = system{worked: &worked, stored: stored, insert: func(ctx context.Context, orders []string) error {
		jobs := make([]river.InsertManyParams, len(orders))
		for i, text := range orders {
			jobs[i].Args = orderArgs{text}
		}
		_, err := client.InsertManyFast(ctx, jobs)
		return err
	}}.measure(ctx, o.file)
	return r, errors.Join(err, client.Stop(ctx))
}
