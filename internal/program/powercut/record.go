package powercut

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"orderpost/internal/queue/embedded"
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

// buildWorker compiles the worker program. without names protections that its
// broker leaves out, see embedded.Config. The broker's upkeep comes every second, so
// that a short trace contains the compaction of blocks.
func buildWorker(ctx context.Context, dir string, without []string) (string, error) {
	const embedded = "-X orderpost/internal/queue/embedded."
	path := filepath.Join(dir, "worker")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path,
		"-ldflags", embedded+"upkeep=1s "+embedded+"without="+strings.Join(without, ","), "orderpost/cmd/worker")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build orderpost/cmd/worker: %w\n%s", err, out)
	}
	return path, nil
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
		if end, err := embedded.ReadEndpoint(r.dataDir()); err == nil && syscall.Kill(end.PID, 0) == nil {
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
	if err := syscall.Kill(end.PID, s); err != nil {
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
		_ = syscall.Kill(end.PID, syscall.SIGKILL)
	}
	_ = r.cmd.Process.Kill()
	<-r.ended
}

func (r *recorder) lastLines() string {
	text, err := os.ReadFile(filepath.Join(r.work, "worker.log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n  ")
}

// read reads the traces of all sessions. dir is the folder that was traced.
func (r *recorder) read(dir string) (*trace, error) {
	t, v := newTrace(dir)
	for session := 1; session <= r.session; session++ {
		f, err := os.Open(r.output(session))
		if err != nil {
			return nil, err
		}
		calls, lines, err := readCalls(f, t.lines)
		_ = f.Close() // only read
		if err == nil {
			err = t.add(v, calls, t.lines+lines, r.api.port)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.output(session), err)
		}
	}
	return t, nil
}

// recording is what a trace needs beside its lines.
type recording struct {
	Policy   string            `json:"on_unsure"`
	Disk     string            `json:"disk"`
	Without  []string          `json:"without,omitempty"`
	Port     string            `json:"port"`
	Sessions int               `json:"sessions"`
	Created  map[string][]bool `json:"created"`
}

// trace records a trace in a folder, or reads the one that is there.
func (o *options) trace(ctx context.Context, work, policy string, out io.Writer) (*recorder, *trace, error) {
	r := &recorder{work: filepath.Join(work, policy), policy: policy, without: o.without}
	about := filepath.Join(r.work, "recording.json")
	var err error
	if r.api, err = newAPI(o.seed, policy, loadFaults); err != nil {
		return nil, nil, err
	}
	if o.traces != "" {
		var known recording
		text, err := os.ReadFile(about)
		if err == nil {
			err = json.Unmarshal(text, &known)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("--traces: %w", err)
		}
		r.session, r.api.port, r.api.created, r.without = known.Sessions, known.Port, known.Created, known.Without
		t, err := r.read(known.Disk)
		return r, t, err
	}
	defer r.kill()
	if err := checkStrace(ctx); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(r.disk(), 0o700); err != nil {
		return nil, nil, err
	}
	if r.binary, err = buildWorker(ctx, work, o.without); err != nil {
		return nil, nil, err
	}
	if r.listen, err = freeAddr(); err != nil {
		return nil, nil, err
	}
	began := time.Now()
	if err := r.load(ctx, o.orders); err != nil {
		return nil, nil, fmt.Errorf("recording: %w\n  %s", err, r.lastLines())
	}
	t, err := r.read(r.disk())
	if err == nil {
		err = t.whole().compare(r.disk())
	}
	if err != nil {
		return nil, nil, err
	}
	_, _ = fmt.Fprintf(out, "recorded %s: %d operations on files, %d confirmations, %d requests to the API in %.0f s\n",
		policy, len(t.ops), t.confirmations(), len(t.posts), time.Since(began).Seconds())
	text, err := json.Marshal(recording{policy, r.disk(), o.without, r.api.port, r.session, r.api.created})
	if err == nil {
		err = os.WriteFile(about, text, 0o600)
	}
	return r, t, err
}

// freeAddr returns a free loopback address.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
