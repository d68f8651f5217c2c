package fleet

import (
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
)

// TestAnAbortedWorkerIsRestarted: a Go program that panics, or that systemd's
// watchdog ends by SIGABRT, ends with exit code 2 by itself, as one with a wrong
// configuration does, and the unit would not restart it. The unit's GOTRACEBACK
// makes it end by the signal.
func TestAnAbortedWorkerIsRestarted(t *testing.T) {
	text, err := os.ReadFile("../../../../deployments/systemd/orderpost-worker.service")
	require.NoError(t, err)
	require.Contains(t, string(text), "\nRestartPreventExitStatus=2 243\n")
	set := regexp.MustCompile(`(?m)^Environment=GOTRACEBACK=(\w+)$`).FindStringSubmatch(string(text))
	require.NotNil(t, set)

	d := newDesk(t)
	c, _ := d.open("as-it-comes")
	require.Equal(t, cli.ExitUsage, c.Abort().ExitCode(), "what the setting is for")

	d.settings["GOTRACEBACK"] = set[1]
	c, _ = d.open("as-the-unit-says")
	ended, ok := c.Abort().Sys().(syscall.WaitStatus)
	require.True(t, ok)
	require.True(t, ended.Signaled(), "%d", ended)
	require.Equal(t, syscall.SIGABRT, ended.Signal())
	require.True(t, strings.Contains(c.Said(), "goroutine"), "the log shows where it hung")
}
