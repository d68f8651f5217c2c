package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"orderpost/internal/queue"
	"orderpost/internal/sandbox/authority"
	"orderpost/internal/settle"
	"orderpost/proof/bench/contender"
)

// rig is what all trials share: the binaries and the folders.
type rig struct {
	*options
	say       func(format string, args ...any)
	dir       string // binaries and logs
	store     string // stores of brokers
	self      string
	orderpost string
	nats      string
	peers     string // built for the first that needs it
	pair      string // the API's certificate and its key
	trusted   string // the certificate of its authority
	failed    int    // trials
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
	if o.https {
		if err := r.certify(); err != nil {
			return r, err
		}
	}
	r.say("building; stores are in %s", base)
	if r.orderpost, err = r.build(ctx, "", "orderpost", "orderpost/cmd/orderpost"); err != nil {
		return r, err
	}
	if slices.ContainsFunc(o.cases, func(name string) bool {
		return name != "scale" && (name != "durable" || slices.Contains(o.contenders, "servers"))
	}) {
		r.nats, err = r.build(ctx, "", "nats-server", "github.com/nats-io/nats-server/v2")
	}
	return r, err
}

// certify makes the certificate of the API.
func (r *rig) certify() error {
	a, err := authority.New("the bench")
	if err != nil {
		return err
	}
	pair, err := a.Server()
	if err != nil {
		return err
	}
	certificate, key, err := authority.PEM(pair)
	if err != nil {
		return err
	}
	r.pair, r.trusted = filepath.Join(r.dir, "api.pem"), filepath.Join(r.dir, "trusted.pem")
	return errors.Join(os.WriteFile(r.pair, append(certificate, key...), 0o600), os.WriteFile(r.trusted, a.PEM, 0o600))
}

// env is the environment of those who post.
func (r *rig) env() []string {
	if r.trusted == "" {
		return os.Environ()
	}
	return append(os.Environ(), "SSL_CERT_FILE="+r.trusted)
}

// build compiles a package. A folder names a module that is not of the workspace.
func (r *rig) build(ctx context.Context, folder, name, pkg string) (string, error) {
	path := filepath.Join(r.dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	if folder != "" {
		cmd.Dir, cmd.Env = folder, append(os.Environ(), "GOWORK=off")
	}
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
