// Package child runs a test's own binary as a worker process that can be killed.
package child

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/worker"
)

// mark makes the test's own binary the worker program.
const mark = "ORDERPOST_TEST_CHILD"

// Main is the worker program in a process that Start made, and does not return
// there; elsewhere it does nothing. Call it first in TestMain.
func Main() {
	if os.Getenv(mark) != "" {
		cli.Main(worker.Run)
	}
}

// Child is a worker process.
type Child struct {
	t    *testing.T
	Name string
	cmd  *exec.Cmd
	log  string
}

// Start starts a worker. The test's end kills it.
func Start(t *testing.T, name string, settings map[string]string) *Child {
	t.Helper()
	c := &Child{t: t, Name: name, log: filepath.Join(t.TempDir(), name+".log")}
	log, err := os.Create(c.log)
	require.NoError(t, err)
	defer func() { _ = log.Close() }() // the child has its own descriptor
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = []string{mark + "=1", "HOME=" + t.TempDir(), "ORDERPOST_WORKER_NAME=" + name}
	for k, v := range settings {
		c.cmd.Env = append(c.cmd.Env, k+"="+v)
	}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	require.NoError(t, c.cmd.Start())
	t.Cleanup(c.Kill)
	return c
}

// Kill ends it as a power cut would.
func (c *Child) Kill() {
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended by itself
	_ = c.cmd.Wait()
	c.cmd = nil
	if c.t.Failed() {
		c.t.Logf("the last words of %s:\n%s", c.Name, c.Said())
	}
}

// End asks it to stop, as an orchestrator does, waits for at most patience, and
// returns how long that took.
func (c *Child) End(patience time.Duration) time.Duration {
	c.t.Helper()
	began := time.Now()
	require.NoError(c.t, c.cmd.Process.Signal(syscall.SIGTERM))
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case err := <-done:
		require.NoError(c.t, err, "%s:\n%s", c.Name, c.Said())
	case <-time.After(patience):
		c.t.Fatalf("%s did not end within %s:\n%s", c.Name, patience, c.Said())
	}
	c.cmd = nil
	return time.Since(began)
}

// Abort ends it as systemd's watchdog does, and returns how it ended.
func (c *Child) Abort() *os.ProcessState {
	c.t.Helper()
	require.NoError(c.t, c.cmd.Process.Signal(syscall.SIGABRT))
	_ = c.cmd.Wait() // an error, as it has to be
	state := c.cmd.ProcessState
	c.cmd = nil
	return state
}

// Said is the end of what it logged.
func (c *Child) Said() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8000):])
}
