package alerts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
	"orderpost/internal/program/worker"
)

// childMark makes the test's own binary the worker program, so that workers
// are processes that can be killed.
const childMark = "ALERTS_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		program.Main(worker.Run)
	}
	os.Exit(m.Run())
}

// child is a worker process.
type child struct {
	t       *testing.T
	cmd     *exec.Cmd
	log     string
	metrics string // URL
}

// startChild starts a worker and waits until it works.
func startChild(t *testing.T, name string, settings map[string]string) *child {
	t.Helper()
	dir := t.TempDir()
	c := &child{t: t, log: filepath.Join(dir, "log")}
	log, err := os.Create(c.log)
	require.NoError(t, err)
	defer func() { _ = log.Close() }() // the child has its own descriptor
	c.cmd = exec.Command(os.Args[0])
	c.cmd.Env = []string{childMark + "=1", "HOME=" + dir, "ORDERPOST_WORKER_NAME=" + name}
	for k, v := range settings {
		c.cmd.Env = append(c.cmd.Env, k+"="+v)
	}
	c.cmd.Stdout, c.cmd.Stderr = log, log
	require.NoError(t, c.cmd.Start())
	t.Cleanup(c.kill)
	require.Eventually(t, func() bool {
		_, rest, found := strings.Cut(c.said(), `"url":"`)
		c.metrics, _, _ = strings.Cut(rest, `"`)
		return found && strings.Contains(c.said(), `"message":"working"`)
	}, patience, pause, "worker %s does not work", name)
	c.metrics += "/metrics"
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
	if c.t.Failed() {
		c.t.Logf("the worker's last words:\n%s", c.said())
	}
}

// said is the end of what it logged.
func (c *child) said() string {
	text, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8000):])
}
