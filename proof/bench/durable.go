package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/worker"
	"orderpost/proof/bench/contender"
)

// durable is what an empty configuration gives: the embedded broker, which
// fsyncs every write, on a disk.
func durable(ctx context.Context, r *rig) ([]table, error) {
	disk, err := os.MkdirTemp(r.disk, "orderpost-bench-disk-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(disk) }()
	n := r.some(20_000)
	t := table{Title: fmt.Sprintf("Durable default: embedded broker, every write fsynced, 64 in flight, %d orders", n),
		Columns: []string{"round", "one fsync takes", "intake, orders/s", "worked off, orders/s", "CPU µs/order (broker included)", "fsyncs/order"}}
	rounds := (r.rounds + 1) / 2
	var outs []outcome
	for round := range rounds {
		fsync, err := timeFsync(disk)
		if err != nil {
			return nil, err
		}
		d := durableTrial{rig: r, dir: filepath.Join(disk, strconv.Itoa(round)), orders: n}
		if r.fsyncs && round == rounds-1 {
			d.trace = filepath.Join(disk, "strace.txt")
		}
		if err := d.run(ctx); err != nil {
			return nil, err
		}
		r.say("durable, round %d: %.0f orders/s, intake %.0f/s, %s fsyncs an order", round+1, d.out.Rate, d.intake, d.fsyncs)
		t.row(strconv.Itoa(round+1), fmt.Sprintf("%.0f µs", micros(fsync)), fmt.Sprintf("%.0f", d.intake), fmt.Sprintf("%.0f", d.out.Rate),
			fmt.Sprintf("%.1f", d.out.CPU), d.fsyncs)
		outs = append(outs, d.out)
	}
	t.Outcomes = []named{{"orderpost worker", outs}}
	return []table{t}, nil
}

type durableTrial struct {
	*rig
	dir    string
	orders int
	trace  string // strace's summary, or empty

	intake float64
	fsyncs string
	out    outcome
}

func (d *durableTrial) run(ctx context.Context) (err error) {
	d.fsyncs = "not counted"
	if err := d.fill(ctx); err != nil {
		return fmt.Errorf("filling: %w", err)
	}
	s := &stage{rig: d.rig, trial: trial{contender: ours, inFlight: 64, orders: d.orders, warm: d.orders / 20}}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w%s", err, s.lastWords())
		}
		s.end()
	}()
	if s.api, err = d.startAPI(ctx, contender.SinkOptions{Warm: int64(s.warm)}); err != nil {
		return err
	}
	program, args := d.worker, []string(nil)
	if d.trace != "" {
		// -D: the worker stays our own child, strace is its grandchild.
		program, args = "strace", []string{"-D", "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", d.trace, d.worker}
	}
	p, err := start(d.rig.dir, "worker", program, s.workerEnv("ORDERPOST_NATS_URL=", "ORDERPOST_DATA_DIR="+d.dir, "ORDERPOST_NATS_LISTEN=127.0.0.1:0"), args...)
	if err != nil {
		return err
	}
	s.workers = append(s.workers, p)
	if s.queue, err = d.join(ctx); err != nil {
		return err
	}
	ended, err := s.untilDone(ctx)
	if err != nil {
		return err
	}
	if d.out, err = s.measure(ctx, ended); err != nil || d.trace == "" {
		return err
	}
	return d.countFsyncs()
}

// fill stores the orders as an import does, in an embedded broker of our own
// that then makes way for the worker's.
func (d *durableTrial) fill(ctx context.Context) error {
	server, err := embedded.Start(embedded.Config{Dir: d.dir, Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	defer server.Stop()
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name = server.URL, server.Token, "bench"
	q, err := queue.Open(ctx, cfg, zerolog.Nop())
	if err != nil {
		return err
	}
	defer q.Close()
	began := time.Now()
	err = fill(ctx, q, 0, d.orders)
	d.intake = float64(d.orders) / time.Since(began).Seconds()
	return err
}

// join waits for the worker's broker.
func (d *durableTrial) join(ctx context.Context) (*queue.Queue, error) {
	for {
		cfg := queue.DefaultConfig()
		cfg.Name, cfg.ConnectTimeout, cfg.Present = "bench", time.Second, fleet.Present
		err := worker.JoinEmbedded(&cfg, d.dir)
		if err == nil {
			var q *queue.Queue
			if q, err = queue.Open(ctx, cfg, zerolog.Nop()); err == nil {
				return q, nil
			}
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var syncCount = regexp.MustCompile(`(?m)^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s.*f(?:data)?sync$`)

// countFsyncs reads strace's summary.
func (d *durableTrial) countFsyncs() error {
	var text []byte
	var err error
	for wait := time.Now().Add(stopTimeout); len(text) == 0 && time.Now().Before(wait); { // strace writes it after the worker's end
		if text, err = os.ReadFile(d.trace); err != nil {
			return err
		}
	}
	total := 0
	for _, m := range syncCount.FindAllSubmatch(text, -1) {
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			return err
		}
		total += n
	}
	d.fsyncs = fmt.Sprintf("%.2f (under strace)", float64(total)/float64(d.orders))
	return nil
}

// timeFsync is the median of small appends with an fsync each.
func timeFsync(dir string) (time.Duration, error) {
	f, err := os.CreateTemp(dir, "fsync-*")
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close(); _ = os.Remove(f.Name()) }()
	var took []float64
	for range 200 {
		began := time.Now()
		if _, err := f.Write(make([]byte, 512)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(began)))
	}
	return time.Duration(median(took)), nil
}
