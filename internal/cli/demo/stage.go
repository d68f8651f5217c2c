package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/cli"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/service"
	"orderpost/internal/files/importer"
	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/sandbox"
	"orderpost/internal/submit"
)

// The demo's key pair at the sandbox. It is valid nowhere else.
const (
	demoKey    = "demo-key"
	demoSecret = "demo-secret"
)

// faults are the sandbox's default faults. Two thousand orders show each kind. There
// are few 429s, because each one makes the whole pool wait for a second.
var faults = sandbox.Faults{
	Slow: 0.01, SlowDelay: 300 * time.Millisecond,
	Unavailable: 0.03, UnavailableAfter: 0.01,
	TooMany: 0.001, RetryAfter: time.Second,
	DropBefore: 0.02, DropAfter: 0.02,
	Refuse: 0.02, MaxPerOrder: 4,
}

// stage holds everything that the demo runs.
type stage struct {
	o       *options
	environ map[string]string
	broker  *embedded.Server
	api     *sandbox.Server
	apiURL  string
	caFile  string
	queue   *queue.Queue
	keep    bool
	tally   *tally
	log     zerolog.Logger
}

func setUp(ctx context.Context, o *options, environ map[string]string, stderr io.Writer) (st *stage, err error) {
	st = &stage{o: o, environ: environ, keep: o.dir != "", tally: newTally()}
	defer func() {
		if err != nil {
			st.tearDown()
		}
	}()
	if st.log, err = cli.NewLogger(stderr, o.logLevel, "auto", environ); err != nil {
		return st, &cli.ExitError{Code: cli.ExitUsage, Err: err}
	}
	if !st.keep {
		if o.dir, err = os.MkdirTemp("", "orderpost-demo-*"); err != nil {
			return st, err
		}
	}
	if _, err := os.Stat(filepath.Join(o.dir, "jetstream")); err == nil {
		st.keep = true // the files there belong to somebody else
		return st, &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("--data: %s holds the data of an earlier run, whose books cannot be balanced against a new sandbox; name another folder", o.dir)}
	}
	if st.broker, err = embedded.Start(embedded.Config{Dir: o.dir, Listen: "127.0.0.1:0"}); err != nil {
		return st, err
	}
	cfg := sandbox.Config{Keys: map[string]string{demoKey: demoSecret}, TLS: true, Logger: zerolog.Nop()}
	cfg.Seed, cfg.Latency, cfg.Jitter = o.seed, 2*time.Millisecond, 6*time.Millisecond
	if !o.calm {
		cfg.Faults = faults
	}
	if st.api, err = sandbox.New(cfg); err != nil {
		return st, err
	}
	if st.apiURL, err = st.api.Start("127.0.0.1:0"); err != nil {
		return st, err
	}
	st.caFile = filepath.Join(o.dir, "sandbox-ca.pem")
	if err := os.WriteFile(st.caFile, st.api.CA(), 0o600); err != nil {
		return st, err
	}
	qcfg := queue.DefaultConfig()
	qcfg.URL, qcfg.Token, qcfg.Name = st.broker.URL, st.broker.Token, "demo"
	st.queue, err = queue.Open(ctx, qcfg, st.log)
	return st, err
}

func (st *stage) tearDown() {
	if st.queue != nil {
		st.queue.Close()
	}
	if st.api != nil {
		_ = st.api.Close()
	}
	if st.broker != nil {
		st.broker.Stop()
	}
	if !st.keep && st.o.dir != "" {
		_ = os.RemoveAll(st.o.dir)
	}
}

// perform imports the file, waits until the worker has settled its orders, and
// balances the books.
func (st *stage) perform(ctx context.Context, stderr io.Writer) (s *summary, err error) {
	started := time.Now()
	var imported *importer.Summary
	err = st.whileWorking(ctx, func(stopped chan error) (err error) {
		if imported, err = st.enqueue(ctx, stopped, stderr); err == nil {
			err = st.waitSettled(ctx, imported, stopped, stderr)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return st.balance(ctx, imported, time.Since(started))
}

// whileWorking runs do beside the worker, which it stops then. stopped has the worker's error if it ended early.
func (st *stage) whileWorking(ctx context.Context, do func(stopped chan error) error) error {
	work, stop := context.WithCancel(ctx)
	defer stop()
	stopped := make(chan error, 1)
	go func() { stopped <- st.work(work) }()
	err := do(stopped)
	stop()
	return cmp.Or(err, <-stopped)
}

// work runs the worker program against the embedded parts.
func (st *stage) work(ctx context.Context) error {
	var cfg service.Config
	if err := cli.ReadEnv(&cfg, map[string]string{}); err != nil {
		return err
	}
	cfg.Submit.URL, cfg.Submit.CAFile = st.apiURL, st.caFile
	cfg.Submit.Concurrency = st.o.concurrency
	cfg.Keys = submit.KeyConfig{Key: demoKey, Secret: demoSecret}
	cfg.Queue.URL, cfg.Queue.Token = st.broker.URL, st.broker.Token
	cfg.Name, cfg.OpsAddr = "demo-worker", ""
	cfg = cfg.Normalize()
	if err := cfg.Validate(); err != nil {
		return err
	}
	return service.Run(ctx, cfg, service.Env{Version: cli.Version(), Log: st.log, Watch: st.tally})
}

// awaitWorker waits until the fleet lists the worker.
func (st *stage) awaitWorker(ctx context.Context, stopped chan error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		view, err := fleet.New(st.queue).Read(ctx)
		if err == nil && len(view.Present()) > 0 {
			return nil
		}
		if err := st.pause(ctx, tick.C, stopped); err != nil {
			return err
		}
	}
}

// pause waits for the next tick. It fails if the worker ended, or ctx.
func (st *stage) pause(ctx context.Context, tick <-chan time.Time, stopped chan error) error {
	select {
	case err := <-stopped:
		stopped <- err
		return errors.Join(errors.New("the worker ended early"), err)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-tick:
		return nil
	}
}

// enqueue runs the enqueue program against the embedded broker, once the worker works.
func (st *stage) enqueue(ctx context.Context, stopped chan error, stderr io.Writer) (*importer.Summary, error) {
	if err := st.awaitWorker(ctx, stopped); err != nil {
		return nil, err
	}
	env := map[string]string{"ORDERPOST_DATA_DIR": st.o.dir}
	var out bytes.Buffer
	args := append([]string{st.o.file, "--json"}, st.o.columns()...)
	switch code := enqueue.Run(ctx, args, env, bytes.NewReader(nil), &out, quietWorkers{stderr}); code {
	case cli.ExitDone:
	case cli.ExitPartial, cli.ExitUsage:
		return nil, &cli.ExitError{Code: code, Err: errors.New("nothing was posted; mend the file, or say with flags what its columns mean (demo --help)")}
	default:
		return nil, &cli.ExitError{Code: code, Err: fmt.Errorf("the import of %s ended with exit code %d", st.o.file, code)}
	}
	imported := &importer.Summary{}
	if err := json.Unmarshal(out.Bytes(), imported); err != nil {
		return nil, fmt.Errorf("the import's summary: %w", err)
	}
	return imported, nil
}

// waitSettled waits until every intent is settled and acknowledged.
func (st *stage) waitSettled(ctx context.Context, imported *importer.Summary, stopped chan error, stderr io.Writer) error {
	line := newLiveLine(stderr, imported.Stored)
	defer line.end()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		counts, err := st.queue.Census.Count(ctx)
		if err != nil {
			return err
		}
		line.show(st.tally, counts)
		if counts.Pending == 0 && counts.Waiting == 0 {
			return nil
		}
		if err := st.pause(ctx, tick.C, stopped); err != nil {
			return err
		}
	}
}
