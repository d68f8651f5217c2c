package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// process is a child whose use of the machine is measured.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	peak int64 // bytes; read before the end
	// before is the CPU that was used before the trial began.
	before time.Duration
	// frozen is the CPU that was used when the trial was over; 0: at the end.
	frozen time.Duration
	done   chan struct{}
	err    error
}

// start runs a program; what it says goes into a file of dir.
func start(dir, name, path string, env []string, args ...string) (*process, error) {
	return startCommand(dir, name, env, exec.Command(path, args...), (*exec.Cmd).Start)
}

// startCommand is start for a command that launch starts.
func startCommand(dir, name string, env []string, cmd *exec.Cmd, launch func(*exec.Cmd) error) (*process, error) {
	log, err := os.CreateTemp(dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	p := &process{name: name, cmd: cmd, log: log.Name(), done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = env, log, log, dir
	if err := launch(p.cmd); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// lookAgain waits a moment. The error is that nothing more will come: the process or ctx ended.
func (p *process) lookAgain(ctx context.Context) error {
	select {
	case <-time.After(10 * time.Millisecond):
		return nil
	case <-p.done:
		return fmt.Errorf("it ended before its orders were done: %v", p.cmd.ProcessState)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopTimeout is how long a child may take to end.
const stopTimeout = 20 * time.Second

// interrupt asks the process to end.
func (p *process) interrupt() {
	p.note()
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended by itself
}

// stop ends the process in an orderly way, and kills it where that fails.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	p.interrupt()
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end within %s", p.name, stopTimeout)
	}
	_ = os.Remove(p.log)
	return nil
}

// cpu is the process's CPU time, after its end: all of it, but for what mark
// and freeze left out.
func (p *process) cpu() time.Duration {
	all := p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	if p.frozen > 0 {
		all = p.frozen
	}
	return all - p.before
}

// mark leaves out what the process has used so far.
func (p *process) mark() { p.before = p.used() }

// freeze leaves out what the process uses from now on.
func (p *process) freeze() { p.frozen = p.used() }

// used is the CPU time so far. Linux counts it in hundredths of a second;
// elsewhere it is not known, and 0.
func (p *process) used() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// note reads the peak resident set. rusage would do, were it not that Linux
// counts the parent's memory at the time of the fork as the child's.
func (p *process) note() { p.peak = max(p.peak, p.memory("VmHWM")) }

// memory is a figure of /proc, in bytes; 0 if it is not known.
func (p *process) memory(field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), field+":")
	number, _, _ := strings.Cut(rest, "kB")
	kb, _ := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	return kb << 10
}

// forgetPeak makes VmHWM count from now on.
func (p *process) forgetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.cmd.Process.Pid), []byte("5"), 0)
}

// rest leaves the process alone for a while.
func (p *process) rest(ctx context.Context, d time.Duration) error {
	for until := time.Now().Add(d); time.Now().Before(until); {
		if err := p.lookAgain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// errorLines is how many lines of each log an error ends with.
const errorLines = 5

// lastWords is the end of the process's log, and what it says about something; "" = nothing.
func (p *process) lastWords(n int, about string) string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var kept []string
	for i, line := range lines {
		if i >= len(lines)-n || about != "" && strings.Contains(line, about) {
			kept = append(kept, line)
		}
	}
	return p.name + ":\n  " + strings.Join(kept, "\n  ")
}
