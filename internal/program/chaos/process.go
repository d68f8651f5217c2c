package chaos

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

// process is a child that is started again after it was killed.
type process struct {
	name string
	path string
	args []string
	env  []string
	log  string
	cmd  *exec.Cmd
}

func (p *process) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	p.cmd = exec.Command(p.path, p.args...)
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = p.env, log, log
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// kill ends the process as a power cut would: SIGKILL, no last word.
func (p *process) kill() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.cmd.Wait()
	p.cmd = nil
}

// running says whether the process is still there, without waiting.
func (p *process) running() bool { return p.cmd != nil && p.cmd.Process.Signal(nullSignal) == nil }

// build compiles a program into dir.
func build(ctx context.Context, dir, name, pkg string) (string, error) {
	path := filepath.Join(dir, name)
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}

// freeAddr gives a loopback address that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
