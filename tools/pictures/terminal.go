package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/creack/pty"
)

// prompt is what the shell prints when it is ready: OSC 133;A is the usual mark of a
// prompt, and is not shown.
const prompt = "\x1b]133;A\a$ "

// terminal is an interactive bash and what it has shown.
type terminal struct {
	ctx   context.Context
	shell *exec.Cmd
	file  *os.File

	mu     sync.Mutex
	shown  strings.Builder
	more   chan struct{} // capacity 1: there is more to read
	closed chan struct{}
}

func openTerminal(ctx context.Context, folder string, environ []string) (*terminal, error) {
	t := &terminal{ctx: ctx, more: make(chan struct{}, 1), closed: make(chan struct{})}
	t.shell = exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "--noediting", "-i")
	t.shell.Dir = folder
	t.shell.Env = append(environ, "TERM=dumb", "HISTFILE=", "LC_ALL=C.UTF-8", `PS1=\[\e]133;A\a\]$ `)
	var err error
	if t.file, err = pty.StartWithSize(t.shell, &pty.Winsize{Rows: 50, Cols: 500}); err != nil { // wide, so that bash wraps nothing
		return nil, fmt.Errorf("bash: %w", err)
	}
	go t.read()
	return t, t.ready(1)
}

func (t *terminal) read() {
	defer close(t.closed)
	buf := make([]byte, 4096)
	for {
		n, err := t.file.Read(buf)
		t.mu.Lock()
		t.shown.Write(buf[:n])
		t.mu.Unlock()
		select {
		case t.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (t *terminal) raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shown.String()
}

// ready waits for the nth prompt.
func (t *terminal) ready(n int) error {
	for {
		if strings.Count(t.raw(), prompt) >= n {
			return nil
		}
		select {
		case <-t.more:
		case <-t.closed:
			return fmt.Errorf("the shell ended")
		case <-t.ctx.Done():
			return t.ctx.Err()
		}
	}
}

// run types a command and waits for the next prompt.
func (t *terminal) run(command string) error {
	n := strings.Count(t.raw(), prompt)
	if _, err := t.file.WriteString(command + "\n"); err != nil {
		return err
	}
	return t.ready(n + 1)
}

var invisible = regexp.MustCompile(`\x1b\][^\a]*\a|\r`)

// text is what the terminal has shown.
func (t *terminal) text() string { return invisible.ReplaceAllString(t.raw(), "") }

// lines is the same without the last prompt.
func (t *terminal) lines() []string {
	return strings.Split(strings.TrimRight(strings.TrimSuffix(t.text(), "$ "), "\n"), "\n")
}

// close ends the shell and what it has started.
func (t *terminal) close() {
	_, _ = t.file.WriteString("kill -9 $(jobs -p); exit\n")
	select {
	case <-t.closed:
	case <-time.After(10 * time.Second):
		_ = t.shell.Process.Kill()
	}
	_ = t.shell.Wait()
	_ = t.file.Close()
}
