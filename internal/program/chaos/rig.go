package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
	"orderpost/internal/worker"
)

const (
	apiKey    = "chaos-key"
	apiSecret = "chaos-secret"
)

// ackWait is short, so that the orders of a killed worker come back soon.
const ackWait = 3 * time.Second

// rig is everything that a run needs.
type rig struct {
	o       *options
	dir     string
	say     func(format string, args ...any)
	rand    *rand.Rand
	api     *sandbox.Server
	apiURL  string
	listen  string
	broker  *process // nil where the first worker runs it
	workers []*process

	workerKills, brokerKills int
}

func prepare(ctx context.Context, o *options, stderr io.Writer) (r *rig, err error) {
	r = &rig{o: o, dir: o.keep, rand: rand.New(rand.NewPCG(o.seed, 2)),
		say: func(format string, args ...any) { _, _ = fmt.Fprintf(stderr, format+"\n", args...) }}
	defer func() {
		if err != nil {
			r.cleanUp()
		}
	}()
	if r.dir == "" {
		r.dir, err = os.MkdirTemp("", "orderpost-chaos-*")
	} else {
		err = os.MkdirAll(r.dir, 0o700)
	}
	if err != nil {
		return r, err
	}
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return r, err
	}
	if err = r.startAPI(); err != nil {
		return r, err
	}
	if r.listen, err = freeAddr(); err != nil {
		return r, err
	}
	if o.broker == "external" {
		if err = r.prepareBroker(ctx); err != nil {
			return r, err
		}
	}
	return r, r.prepareWorkers(ctx)
}

func (r *rig) startAPI() (err error) {
	cfg := sandbox.Config{Keys: map[string]string{apiKey: apiSecret}, Logger: zerolog.Nop()}
	cfg.Seed, cfg.Latency, cfg.Jitter = r.o.seed, 5*time.Millisecond, 20*time.Millisecond
	if !r.o.calm {
		cfg.Faults = sandbox.Faults{Unavailable: 0.01, UnavailableAfter: 0.01, DropBefore: 0.01, DropAfter: 0.01,
			Slow: 0.005, SlowDelay: 300 * time.Millisecond, Refuse: 0.02, MaxPerOrder: 3}
	}
	if r.api, err = sandbox.New(cfg); err != nil {
		return err
	}
	r.apiURL, err = r.api.Start("127.0.0.1:0")
	return err
}

func (r *rig) prepareBroker(ctx context.Context) error {
	path, err := build(ctx, r.dir, "nats-server", "github.com/nats-io/nats-server/v2")
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(r.listen)
	if err != nil {
		return err
	}
	conf := filepath.Join(r.dir, "nats.conf")
	text := fmt.Sprintf("host: %s\nport: %s\njetstream { store_dir: %q, sync_interval: always }\n", host, port, filepath.Join(r.dir, "store"))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return err
	}
	r.broker = &process{name: "nats-server", path: path, args: []string{"-c", conf}, log: filepath.Join(r.dir, "nats-server.log")}
	return r.broker.start()
}

func (r *rig) prepareWorkers(ctx context.Context) error {
	path, err := build(ctx, r.dir, "worker", "orderpost/cmd/worker")
	if err != nil {
		return err
	}
	for i := range r.o.workers {
		name := fmt.Sprintf("worker-%d", i+1)
		env := append(os.Environ(),
			"ORDERPOST_API_URL="+r.apiURL, "ORDERPOST_API_KEY="+apiKey, "ORDERPOST_API_SECRET="+apiSecret,
			"ORDERPOST_WORKER_NAME="+name, "ORDERPOST_DATA_DIR="+filepath.Join(r.dir, "data"),
			"ORDERPOST_NATS_LISTEN="+r.listen, "ORDERPOST_OPS_ADDR=", "ORDERPOST_LOG_FORMAT=json",
			"ORDERPOST_ON_UNSURE="+r.o.policy, "ORDERPOST_ACK_WAIT="+ackWait.String(), "ORDERPOST_REQUEST_TIMEOUT=1s", "ORDERPOST_HEADER_TIMEOUT=1s",
			"ORDERPOST_RETRY_DELAY_BASE=1s", "ORDERPOST_BREAKER_RATIO=0")
		if r.broker != nil {
			env = append(env, "ORDERPOST_NATS_URL=nats://"+r.listen)
		}
		w := &process{name: name, path: path, env: env, log: filepath.Join(r.dir, name+".log")}
		r.workers = append(r.workers, w)
		if err := w.start(); err != nil {
			return err
		}
		if i == 0 && r.broker == nil {
			if err := r.waitForBroker(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitForBroker waits until the streams can be opened.
func (r *rig) waitForBroker(ctx context.Context) error {
	q, err := r.open(ctx)
	if err != nil {
		return err
	}
	q.Close()
	return nil
}

// open connects to whatever broker is there, for as long as it takes one to
// come back.
func (r *rig) open(ctx context.Context) (*queue.Queue, error) {
	for {
		cfg := queue.DefaultConfig()
		cfg.Name, cfg.ConnectTimeout = "chaos", time.Second
		cfg.AckWait = ackWait // whoever comes first makes the consumer
		var err error
		if r.broker != nil {
			cfg.URL = "nats://" + r.listen
		} else {
			err = worker.JoinEmbedded(&cfg, filepath.Join(r.dir, "data"))
		}
		if err == nil {
			var q *queue.Queue
			if q, err = queue.Open(ctx, cfg, zerolog.Nop()); err == nil {
				return q, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *rig) cleanUp() {
	for _, w := range r.workers {
		w.kill()
	}
	if r.broker != nil {
		r.broker.kill()
	}
	if r.api != nil {
		_ = r.api.Close()
	}
	if r.o.keep == "" && r.dir != "" {
		_ = os.RemoveAll(r.dir)
	}
}

// lastWords gives the end of each log, for a run that failed.
func (r *rig) lastWords() error {
	var errs []error
	for _, p := range append(r.workers, r.broker) {
		if p == nil {
			continue
		}
		text, err := os.ReadFile(p.log)
		if err != nil {
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		errs = append(errs, fmt.Errorf("%s:\n  %s", p.name, strings.Join(lines[max(0, len(lines)-5):], "\n  ")))
	}
	return errors.Join(errs...)
}

// victim picks whom to kill next: any worker, or the external broker.
func (r *rig) victim() *process {
	n := len(r.workers)
	if r.broker != nil {
		n++
	}
	if i := r.rand.IntN(n); i < len(r.workers) {
		return r.workers[i]
	}
	return r.broker
}
