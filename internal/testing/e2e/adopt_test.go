package e2e

import (
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/worker"
)

// readmeSteps are the commands of the README's section Your own orders, up to the
// worker that posts to the reader's own one.
func readmeSteps(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(readmePath)
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## Your own orders\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	var steps []string
	for _, block := range shellBlock.FindAllStringSubmatch(section, 2) {
		for line := range strings.Lines(block[1]) {
			line, _, _ = strings.Cut(line, "#")
			steps = append(steps, strings.TrimSpace(line))
		}
	}
	return steps
}

// TestReadmeFromTheSandboxToTheOwnAPI goes the README's way word for word: from
// the sandbox to a second API, in one data folder.
func TestReadmeFromTheSandboxToTheOwnAPI(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"go run ./cmd/sandbox", "go run ./cmd/orderpost worker", "go run ./cmd/orderpost enqueue examples/orders.csv --wait --results outcomes.csv",
		"export ORDERPOST_API_URL=https://api.example.com", "export ORDERPOST_API_KEY=…", "export ORDERPOST_API_SECRET=…",
		"go run ./cmd/orderpost worker adopt", "go run ./cmd/orderpost worker",
	}, readmeSteps(t), "the README goes another way than this test")
	settings, sandboxURL := api(t)
	settings["USER"] = "anna"
	_, ownURL := api(t)
	enqueued := func(settings map[string]string, file string) {
		t.Helper()
		code, _, errOut := importFile(t, settings, file)
		require.Equal(t, cli.ExitDone, code, errOut)
	}

	w := startWorker(t, settings)
	file := writeOrders(t, 20)
	enqueued(settings, file)
	drained(t, openStreams(t, settings))
	require.Equal(t, cli.ExitDone, w.end())

	own := maps.Clone(settings)
	own["ORDERPOST_API_URL"] = ownURL
	p := start(t, "worker without adopt", worker.Run, own)
	require.Equal(t, cli.ExitUsage, p.wait())
	require.Contains(t, p.errOut.String(), "this worker posts to "+ownURL+", but the orders of this broker belong to "+sandboxURL+
		" (0 pending orders, 20 results and 0 dead letters); nothing was sent.")
	require.Contains(t, p.errOut.String(), "run: orderpost worker adopt")
	require.Contains(t, p.errOut.String(), "ORDERPOST_DATA_DIR")

	code, out, errOut := runProgram(t, worker.Run, own, "adopt", "--yes")
	require.Equal(t, cli.ExitDone, code, errOut)
	require.Contains(t, out, "       20 results and notes")
	require.Contains(t, out, "The orders of this broker belong to "+ownURL+" from now on; anna@")

	w = startWorker(t, own)
	more := writeFile(t, "order_no,timeout\nOWN-1,60\nOWN-2,60\n")
	enqueued(own, more)
	q := openStreams(t, own)
	drained(t, q)
	enqueued(own, file) // settled by the sandbox: not posted again
	requireBalanced(t, q, 22)
	require.Len(t, ledger(t, sandboxURL), 20)
	require.Len(t, ledger(t, ownURL), 2)
	for _, c := range []struct {
		run  cli.RunFunc
		args []string
	}{{deadletter.Run, []string{"audit"}}, {enqueue.Run, []string{"order", "OWN-1"}}, {worker.Run, []string{"fleet"}}} {
		code, out, errOut = runProgram(t, c.run, own, c.args...)
		require.Equal(t, cli.ExitDone, code, "%v %s %s", c.args, out, errOut)
	}
	require.Contains(t, out, "API: "+ownURL)
	require.Equal(t, cli.ExitDone, w.end())
}
