package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"orderpost/internal/cli/service"
	"orderpost/internal/fleet"
	"orderpost/internal/queue"
)

// runOurs works the file off with the worker, its embedded broker and the enqueue command.
func runOurs(settings ...string) func(ctx context.Context, d *durableTrial) error {
	return func(ctx context.Context, d *durableTrial) error {
		data := filepath.Join(d.dir, "data")
		env := d.workerEnv(append(settings, "ORDERPOST_NATS_URL=", "ORDERPOST_DATA_DIR="+data, "ORDERPOST_NATS_LISTEN=127.0.0.1:0")...)
		if _, err := d.startWatched("worker", data, env, d.orderpost, "worker"); err != nil {
			return err
		}
		var err error
		if d.queue, err = d.join(ctx, data); err != nil {
			return err
		}
		return d.enqueue(ctx, env)
	}
}

// runOursOnServers works the file off with servers that fsync every write, each with a replica,
// and one worker.
func runOursOnServers(n int) func(ctx context.Context, d *durableTrial) error {
	return func(ctx context.Context, d *durableTrial) error {
		b := &broker{replicas: n, dir: d.dir, sync: true}
		err := b.start(func(name, conf string) (*process, error) {
			return d.startWatched(name, filepath.Join(d.dir, name), os.Environ(), d.nats, "-c", conf)
		})
		if err != nil {
			return err
		}
		d.connect = b.connect
		if d.queue, err = b.open(ctx); err != nil {
			return err
		}
		if err := b.placeLeaders(ctx); err != nil {
			return err
		}
		env := d.workerEnv("ORDERPOST_NATS_URL="+b.url, "ORDERPOST_REPLICAS="+strconv.Itoa(n))
		p, err := d.start("worker", env, d.orderpost, "worker")
		if err != nil {
			return err
		}
		for {
			if all, err := fleet.New(d.queue).Workers(ctx); err == nil && len(all) > 0 {
				return d.enqueue(ctx, env)
			}
			if err := p.lookAgain(ctx); err != nil {
				return err
			}
		}
	}
}

// enqueue imports the file, and waits until every outcome is stored.
func (d *durableTrial) enqueue(ctx context.Context, env []string) error {
	watch := watchFreed(ctx, d.queue)
	defer watch.end()
	for _, p := range d.workers {
		p.mark()
	}
	d.began = time.Now()
	working := d.workers
	command, err := d.start("enqueue", env, d.orderpost, "enqueue", d.file)
	if err != nil {
		return err
	}
	if d.ended, err = d.untilDone(ctx); err != nil {
		return err
	}
	for _, p := range working {
		p.freeze() // what follows reads the books
	}
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

// join waits for the worker's broker and connects to it.
func (d *durableTrial) join(ctx context.Context, data string) (*queue.Queue, error) {
	for {
		cfg := queue.DefaultConfig()
		cfg.Name, cfg.ConnectTimeout, cfg.Living = "bench", time.Second, fleet.Living
		err := service.JoinEmbedded(&cfg, data)
		if err == nil {
			d.connect = func() (*nats.Conn, jetstream.JetStream, error) { return connect(cfg.URL, cfg.Token) }
			var q *queue.Queue
			if q, err = queue.Open(ctx, cfg, zerolog.Nop()); err == nil {
				return q, nil
			}
		}
		if ended := d.workers[0].lookAgain(ctx); ended != nil {
			return nil, errors.Join(ended, err)
		}
	}
}
