package fleet

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orderpost/internal/program"
	"orderpost/internal/program/worker"
)

// childMark makes the test's own binary the worker program.
const childMark = "ORDERPOST_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		program.Main(worker.Run)
	}
	goleak.VerifyTestMain(m)
}

// child is a worker process.
type child struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	log  string
}

// startChild starts a worker from a binary.
func startChild(t *testing.T, binary, name string, settings map[string]string) *child {
	t.Helper()
	c := &child{t: t, name: name, log: filepath.Join(t.TempDir(), name+".log")}
	log, err := os.Create(c.log)
	require.NoError(t, err)
	defer func() { _ = log.Close() }() // the child has its own descriptor
	c.cmd = exec.Command(binary)
	c.cmd.Env = []string{childMark + "=1", "HOME=" + t.TempDir(), "ORDERPOST_WORKER_NAME=" + name}
	for k, v := range settings {
		c.cmd.Env = append(c.cmd.Env, k+"="+v)
	}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	require.NoError(t, c.cmd.Start())
	t.Cleanup(c.kill)
	return c
}

// kill ends it as a power cut would.
func (c *child) kill() {
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Kill() // it may have ended by itself
	_ = c.cmd.Wait()
	c.cmd = nil
}

// end asks it to stop, as an orchestrator does, and returns how long that took.
func (c *child) end() time.Duration {
	c.t.Helper()
	began := time.Now()
	require.NoError(c.t, c.cmd.Process.Signal(syscall.SIGTERM))
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case err := <-done:
		require.NoError(c.t, err, "%s:\n%s", c.name, c.lastWords())
	case <-time.After(patience):
		c.t.Fatalf("%s did not end within %s:\n%s", c.name, patience, c.lastWords())
	}
	c.cmd = nil
	return time.Since(began)
}

// lastWords are the end of what it logged.
func (c *child) lastWords() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}
