package containers

import (
	"bytes"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience bounds every wait; pause is the time between two looks at a condition.
const (
	patience = 3 * time.Minute
	pause    = 100 * time.Millisecond
)

// command prepares a command of podman whose output goes to the buffer.
func command(said *bytes.Buffer, args ...string) *exec.Cmd {
	cmd := exec.Command("podman", args...)
	cmd.Stdout, cmd.Stderr = said, said
	return cmd
}

// podman runs a command to its end and returns what it printed.
func podman(t *testing.T, args ...string) string {
	t.Helper()
	var said, stderr bytes.Buffer
	cmd := command(&said, args...)
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Run(), "podman %s: %s", strings.Join(args, " "), &stderr)
	return strings.TrimSpace(said.String())
}

// container is one container, which is created anew at each start, as an upgrade does.
type container struct {
	t    *testing.T
	name string
	args []string // of podman run: options, image, command
	ops  int      // the port of its /readyz, if it was given one
}

// start creates the container and starts it. At the test's end it is removed, and what it logged
// is shown if the test failed.
func start(t *testing.T, name string, args ...string) *container {
	t.Helper()
	c := &container{t: t, name: name, args: args}
	c.start()
	t.Cleanup(func() {
		if t.Failed() {
			var said bytes.Buffer
			_ = command(&said, "logs", "--tail", "100", name).Run()
			t.Logf("%s logged:\n%s", name, &said)
		}
		podman(t, "rm", "--force", "--ignore", name)
	})
	return c
}

func (c *container) start() {
	c.t.Helper()
	podman(c.t, slices.Concat([]string{"run", "--detach", "--name", c.name, "--uts", "private", "--hostname", c.name}, c.args)...)
}

// stop stops the container as an engine does, with SIGTERM. The process must end by itself
// within the grace period, and well. stop returns what the container logged.
func (c *container) stop() string {
	c.t.Helper()
	podman(c.t, "stop", c.name)
	require.Equal(c.t, "0", c.inspect(".State.ExitCode"), "%s: 137 is a process that outlived the grace period", c.name)
	var said bytes.Buffer
	require.NoError(c.t, command(&said, "logs", c.name).Run())
	return said.String()
}

// recreate stops the container and starts another one in its place. It returns what the old one logged.
func (c *container) recreate() string {
	c.t.Helper()
	said := c.stop()
	podman(c.t, "rm", c.name)
	c.start()
	return said
}

// kill kills the container's process, and waits until the engine starts it again.
func (c *container) kill() {
	c.t.Helper()
	before := c.number(".RestartCount")
	require.NoError(c.t, syscall.Kill(c.number(".State.Pid"), syscall.SIGKILL))
	require.Eventually(c.t, func() bool { return c.number(".RestartCount") == before+1 }, patience, pause, "%s is not started again", c.name)
}

func (c *container) inspect(field string) string {
	c.t.Helper()
	return podman(c.t, "inspect", "--format", "{{"+field+"}}", c.name)
}

func (c *container) number(field string) int {
	c.t.Helper()
	n, err := strconv.Atoi(c.inspect(field))
	require.NoError(c.t, err, field)
	return n
}

// requireHealthy waits until the container's health check passes.
func (c *container) requireHealthy() {
	c.t.Helper()
	var said bytes.Buffer
	require.Eventually(c.t, func() bool {
		said.Reset()
		return command(&said, "healthcheck", "run", c.name).Run() == nil
	}, patience, pause, "%s: %s", c.name, &said)
}
