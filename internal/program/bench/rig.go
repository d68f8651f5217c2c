package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"orderpost/internal/program/bench/contender"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// brokerSettings are the same for all contenders.
const brokerSettings = "file store, default sync interval, max_payload 8MB"

// rig is what all trials share: the binaries and the folders.
type rig struct {
	*options
	say    func(format string, args ...any)
	dir    string // binaries and logs
	store  string // stores of brokers
	self   string
	worker string
	nats   string
}

func prepare(ctx context.Context, o *options, stderr io.Writer) (r *rig, err error) {
	r = &rig{options: o, say: func(format string, args ...any) { _, _ = fmt.Fprintf(stderr, format+"\n", args...) }}
	defer func() {
		if err != nil {
			r.cleanUp()
		}
	}()
	if r.self, err = os.Executable(); err != nil {
		return r, err
	}
	base := o.store
	if base == "" {
		base = os.TempDir()
		if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
			base = "/dev/shm"
		}
	}
	if r.store, err = os.MkdirTemp(base, "orderpost-bench-*"); err != nil {
		return r, err
	}
	if r.dir, err = os.MkdirTemp("", "orderpost-bench-*"); err != nil {
		return r, err
	}
	r.say("building the worker and a nats-server; stores are in %s", base)
	if r.worker, err = r.build(ctx, "worker", "orderpost/cmd/worker"); err != nil {
		return r, err
	}
	r.nats, err = r.build(ctx, "nats-server", "github.com/nats-io/nats-server/v2")
	return r, err
}

func (r *rig) build(ctx context.Context, name, pkg string) (string, error) {
	path := filepath.Join(r.dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

func (r *rig) cleanUp() {
	for _, dir := range []string{r.dir, r.store} {
		if dir != "" {
			_ = os.RemoveAll(dir)
		}
	}
}

// freeAddr gives a loopback address that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// broker is a nats-server with a store of its own.
type broker struct {
	*process
	url string
	dir string
}

func (r *rig) startBroker() (*broker, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	b := &broker{url: "nats://" + addr}
	if b.dir, err = os.MkdirTemp(r.store, "broker-*"); err != nil {
		return nil, err
	}
	conf := filepath.Join(b.dir, "nats.conf")
	text := fmt.Sprintf("host: %s\nport: %s\nmax_payload: 8MB\njetstream { store_dir: %q }\n", host, port, filepath.Join(b.dir, "store"))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	b.process, err = start(r.dir, "nats-server", r.nats, os.Environ(), "-c", conf)
	return b, err
}

func (b *broker) stop() error {
	if b == nil || b.process == nil {
		return nil
	}
	return errors.Join(b.process.stop(), os.RemoveAll(b.dir))
}

// open connects to the broker's streams, and makes them.
func (b *broker) open(ctx context.Context) (*queue.Queue, error) {
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Name = b.url, "bench"
	return queue.Open(ctx, cfg, zerolog.Nop())
}

// fill publishes the orders from..to-1, as an import does.
func fill(ctx context.Context, q *queue.Queue, from, to int) error {
	const page = 500
	now := time.Now()
	intents := make([]settle.Intent, 0, page)
	for i := from; i < to; i++ {
		intents = append(intents, intent(i, now))
		if len(intents) < page && i+1 < to {
			continue
		}
		for _, result := range q.PublishMany(ctx, intents) {
			if result.Err != nil {
				return result.Err
			}
		}
		intents = intents[:0]
	}
	return nil
}

func intent(i int, now time.Time) settle.Intent {
	return settle.Intent{OrderNo: contender.OrderNo(i), ID: fmt.Sprintf("bench:%d", i), Batch: "bench", Body: contender.Order(i, now)}
}

// api is the sink process.
type api struct {
	*process
	url string
}

func (r *rig) startAPI(ctx context.Context, o contender.SinkOptions) (*api, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	args := []string{"sink", "--addr", addr, "--latency", o.Latency.String(), "--warm", fmt.Sprint(o.Warm), fmt.Sprintf("--transit=%v", o.Transit)}
	p, err := start(r.dir, "sink", r.self, os.Environ(), args...)
	if err != nil {
		return nil, err
	}
	a := &api{process: p, url: "http://" + addr}
	for {
		if _, err = a.seen(ctx, false); err == nil {
			return a, nil
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("the API ended: %w\n%s", p.err, p.lastWords())
		case <-ctx.Done():
			return nil, errors.Join(p.stop(), context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (a *api) seen(ctx context.Context, transits bool) (s contender.Seen, err error) {
	url := a.url + "/seen"
	if transits {
		url += "?transits"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer func() { _ = resp.Body.Close() }()
	return s, json.NewDecoder(resp.Body).Decode(&s)
}
