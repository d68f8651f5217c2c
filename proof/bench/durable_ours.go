package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/worker"
)

// runOurs works the file off with the worker, its embedded broker and the enqueue command.
func runOurs(settings ...string) func(ctx context.Context, d *durableTrial) error {
	return func(ctx context.Context, d *durableTrial) error {
		data := filepath.Join(d.dir, "data")
		env := d.workerEnv(append(settings, "ORDERPOST_NATS_URL=", "ORDERPOST_DATA_DIR="+data, "ORDERPOST_NATS_LISTEN=127.0.0.1:0")...)
		program, args := d.strace.wrap(d.orderpost, "worker")
		p, err := start(d.rig.dir, "worker", program, env, args...)
		if err != nil {
			return err
		}
		d.workers, d.traced, d.root = append(d.workers, p), p, data
		if d.queue, err = d.join(ctx, data); err != nil {
			return err
		}
		watch := watchFreed(ctx, d.queue)
		defer watch.end()
		p.mark()
		d.began = time.Now()
		command, err := start(d.rig.dir, "enqueue", d.orderpost, env, "enqueue", d.file)
		if err != nil {
			return err
		}
		d.workers = append(d.workers, command)
		if d.ended, err = d.untilDone(ctx); err != nil {
			return err
		}
		p.freeze() // what follows reads the books
		if <-command.done; command.err != nil {
			return fmt.Errorf("enqueue: %w", command.err)
		}
		watch.end()
		if err := d.allAccepted(ctx); err != nil {
			return err
		}
		if d.freed, err = watch.quantile(ctx, d.queue, 0.99); err != nil {
			return err
		}
		d.queue.Close()
		d.queue = nil
		return nil
	}
}

// join waits for the worker's broker and connects to it.
func (d *durableTrial) join(ctx context.Context, data string) (*queue.Queue, error) {
	for {
		cfg := queue.DefaultConfig()
		cfg.Name, cfg.ConnectTimeout, cfg.Present = "bench", time.Second, fleet.Present
		err := worker.JoinEmbedded(&cfg, data)
		if err == nil {
			var q *queue.Queue
			if q, err = queue.Open(ctx, cfg, zerolog.Nop()); err == nil {
				return q, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-d.workers[0].done:
			return nil, d.endedEarly()
		case <-time.After(50 * time.Millisecond):
		}
	}
}
