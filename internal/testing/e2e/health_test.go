package e2e

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/worker"
)

// TestHealthCommand: what the image's health check does.
func TestHealthCommand(t *testing.T) {
	settings, _ := api(t)
	settings["ORDERPOST_OPS_ADDR"] = "127.0.0.1:0"
	w := startWorker(t, settings)
	served, _, _ := strings.Cut(w.saw(&w.errOut, `"url":"http://`), `"`)
	_, port, err := net.SplitHostPort(served)
	require.NoError(t, err)
	ask := func(addr string) (int, string) {
		p := start(t, "worker health", worker.Run, map[string]string{"ORDERPOST_OPS_ADDR": addr}, "health")
		return p.wait(), p.errOut.String()
	}
	code, errOut := ask(served)
	require.Equal(t, cli.ExitDone, code, errOut)
	code, errOut = ask("0.0.0.0:" + port) // as in the image
	require.Equal(t, cli.ExitDone, code, errOut)
	code, errOut = ask("")
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errOut, "ORDERPOST_OPS_ADDR")
	require.Equal(t, cli.ExitDone, w.end())
	code, errOut = ask(served)
	require.Equal(t, cli.ExitFailed, code)
	require.Contains(t, errOut, "not healthy")
}
