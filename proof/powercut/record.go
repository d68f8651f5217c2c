package powercut

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"orderpost/internal/queue/embedded"
	"orderpost/proof/overlay"
)

// recorder runs workers under strace, one after another, on one data folder.
type recorder struct {
	work    string // everything of this run
	binary  string // the worker program
	policy  string
	without []string // protections that the broker leaves out
	api     *api
	listen  string
	session int
	cmd     *exec.Cmd
	ended   chan struct{}
}

// disk is the folder whose changes are traced. The worker creates its data folder in it.
func (r *recorder) disk() string { return filepath.Join(r.work, "disk") }

func (r *recorder) dataDir() string { return filepath.Join(r.disk(), "data") }

func (r *recorder) output(session int) string {
	return filepath.Join(r.work, fmt.Sprintf("trace-%d", session))
}

// buildWorker compiles the worker program. without names protections that it leaves out.
// nats-server's upkeep comes every second and two writes make a batch, so that a short trace
// contains the compaction of blocks, and batches.
func buildWorker(ctx context.Context, dir string, without []string) (string, error) {
	patched, err := patches(ctx, without)
	if err != nil {
		return "", err
	}
	list, err := patched.Write(dir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "worker")
	if out, err := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", path, "orderpost/cmd/worker").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build orderpost/cmd/worker: %w\n%s", err, out)
	}
	return path, nil
}

// patches returns in what the worker differs from the product.
func patches(ctx context.Context, without []string) (overlay.Files, error) {
	const pipeline, writer, broker = "internal/queue/pipeline.go", "internal/queue/writer.go", "internal/queue/embedded/embedded.go"
	const protects = "return !slices.Contains(c.Without, name)"
	all := [][3]string{
		{pipeline, "return p.modes.singles(n)", "return 0"},
		{broker, "return &server.Options{\n", "return &server.Options{\n\t\tSyncInterval: time.Second,\n"},
		{broker, protects, fmt.Sprintf("%s && !slices.Contains(%#v, name)", protects, without)},
	}
	if slices.Contains(without, "apart") {
		all = append(all, [3]string{writer, "alone: expect > 0 && w.reader.replicas.Load() < 2", "alone: false"})
	}
	patched := make(overlay.Files)
	for _, p := range all {
		file, err := overlay.Product(ctx, p[0])
		if err == nil {
			err = patched.Patch(file, p[1], p[2])
		}
		if err != nil {
			return nil, err
		}
	}
	return patched, nil
}

// errNoStrace says that nothing can be recorded here.
var errNoStrace = errors.New("strace does not work here: install it (apt-get install strace) and allow ptrace")

// checkStrace returns errNoStrace unless strace can trace a process.
func checkStrace(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=none", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %w %s", errNoStrace, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// killDelay is how long a worker may take to stop if the run is interrupted.
const killDelay = 10 * time.Second

// start starts the next worker.
func (r *recorder) start(ctx context.Context) error {
	r.session++
	log, err := os.OpenFile(filepath.Join(r.work, "worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	r.cmd = exec.CommandContext(ctx, "strace", "-f", "--seccomp-bpf", "-qq", "-xx", "-s", "16777216", "-e", "signal=none",
		"-e", "trace=?"+strings.Join(traced, ",?"), "-o", r.output(r.session), r.binary)
	r.cmd.Env = append(os.Environ(), r.api.settings(r.policy)...)
	r.cmd.Env = append(r.cmd.Env, "ORDERPOST_DATA_DIR="+r.dataDir(), "ORDERPOST_NATS_LISTEN="+r.listen, "ORDERPOST_MAX_BYTES=100000")
	r.cmd.Stdout, r.cmd.Stderr = log, log
	// strace passes SIGTERM on to the worker. Were strace killed, the worker would go on.
	r.cmd.Cancel, r.cmd.WaitDelay = func() error { return r.cmd.Process.Signal(syscall.SIGTERM) }, killDelay
	if err := r.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	r.ended = ended
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // worker.log says how it ended
		close(ended)
	}(r.cmd)
	return nil
}

// endpoint waits until the worker's broker can be reached.
func (r *recorder) endpoint(ctx context.Context) (embedded.Endpoint, error) {
	for {
		if end, err := embedded.ReadEndpoint(r.dataDir()); err == nil && signal(end.PID, syscall.Signal(0)) == nil {
			return end, nil
		}
		select {
		case <-r.ended:
			return embedded.Endpoint{}, fmt.Errorf("the worker ended: %s", r.lastLines())
		case <-ctx.Done():
			return embedded.Endpoint{}, context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stop ends the worker by a signal and waits for its end.
func (r *recorder) stop(ctx context.Context, s syscall.Signal) error {
	end, err := r.endpoint(ctx)
	if err != nil {
		return err
	}
	if err := signal(end.PID, s); err != nil {
		return err
	}
	select {
	case <-r.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// kill ends what a failed recording left running.
func (r *recorder) kill() {
	if r.cmd == nil || r.cmd.Process == nil {
		return
	}
	select {
	case <-r.ended:
		return
	default:
	}
	if end, err := embedded.ReadEndpoint(r.dataDir()); err == nil {
		_ = signal(end.PID, syscall.SIGKILL)
	}
	_ = r.cmd.Cancel()
	<-r.ended
}

func signal(pid int, s os.Signal) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(s)
}

func (r *recorder) lastLines() string {
	text, err := os.ReadFile(filepath.Join(r.work, "worker.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n  ")
}
