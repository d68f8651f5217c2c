package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// process is a child process that is restarted after it ended. Its methods are safe for
// concurrent use.
type process struct {
	name string
	path string
	turn []string // programs that take turns, one for each start; empty = always path
	args []string
	env  []string
	log  string

	clock   *wallClock // with --clocks; nil = the machine's
	history *history   // may be nil
	broker  bool       // it runs a broker

	mu     sync.Mutex
	runs   []lifetime
	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd has ended
	frozen bool
	down   bool // stopped on purpose: revive does not start it
}

// start starts the process unless it runs.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
	if p.alive() {
		return nil
	}
	if len(p.turn) > 0 {
		p.path = p.turn[0]
		p.turn = append(p.turn[1:], p.path)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	cmd := exec.Command(p.path, p.args...)
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.env, log, log, orphaned()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended, p.frozen = cmd, ended, false
	name := p.began()
	go func() {
		_ = cmd.Wait() // its log says how it ended
		p.over(name)
		close(ended)
	}()
	return nil
}

// alive reports whether the process runs. The caller holds mu.
func (p *process) alive() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// whileAlive returns a context that ends when the process does.
func (p *process) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ended:
			cancel(fmt.Errorf("%s ended before it served", p.name))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// stop sends a signal and waits for the end. It kills the process if that takes longer
// than patience. The process stays down until start.
func (p *process) stop(s os.Signal, patience time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	if !p.alive() {
		return
	}
	_ = p.cmd.Process.Signal(s) // an error means that it has ended
	if s != syscall.SIGKILL {
		if p.frozen {
			_ = p.cmd.Process.Signal(thawSignal)
		}
		select {
		case <-p.ended:
			return
		case <-time.After(patience):
			_ = p.cmd.Process.Kill()
		}
	}
	<-p.ended
}

// freeze suspends the process. thaw resumes the same process, but not one that was
// started since.
func (p *process) freeze() (thaw func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return func() {}
	}
	cmd, name, from := p.cmd, p.runs[len(p.runs)-1].name, time.Now()
	_ = cmd.Process.Signal(freezeSignal)
	p.frozen = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.history.frozen(name, from)
		_ = cmd.Process.Signal(thawSignal) // an error means that it has ended
		if p.cmd == cmd {
			p.frozen = false
		}
	}
}

// revive starts the process again if it ended by itself.
func (p *process) revive() (revived bool, err error) {
	p.mu.Lock()
	idle := p.down || p.alive()
	p.mu.Unlock()
	if idle {
		return false, nil
	}
	return true, p.start()
}

// pid returns the process ID; 0 = it does not run.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.alive() {
		return 0
	}
	return p.cmd.Process.Pid
}

// lastLines returns the end of the log.
func (p *process) lastLines(n int) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n  ")
}

// build compiles a program into dir. list is a file for go build -overlay; "" = none.
func build(ctx context.Context, dir, name, pkg, list string) (string, error) {
	path := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", path, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// freeAddrs returns free loopback addresses. What listens there may be away for a while, so
// their ports are none that the system gives to those who ask for any.
func freeAddrs(n int) ([]string, error) {
	const first, last, tries = 10_000, 32_000, 1000 // Linux gives 32768 and more
	var addrs []string
	for range tries {
		if len(addrs) == n {
			return addrs, nil
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first)))
		if err != nil {
			continue
		}
		addrs = append(addrs, l.Addr().String())
		defer func() { _ = l.Close() }() // not before the end, otherwise the next one may get the same port
	}
	return nil, fmt.Errorf("no free port between %d and %d in %d tries", first, last, tries)
}
