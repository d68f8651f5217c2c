package e2e

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/books"
	"orderpost/internal/program"
)

// TestImportWaitsAndTells: one command from the file to one outcome per row,
// in the file's order, against an API that refuses some and drops others.
func TestImportWaitsAndTells(t *testing.T) {
	t.Parallel()
	const rows = 1500
	settings, url := api(t, "--seed", "7", "--fault-refuse", "0.02", "--fault-drop-after", "0.01", "--max-faults-per-order", "2")
	startWorker(t, settings)
	file := writeOrders(t, rows)
	out := filepath.Join(t.TempDir(), "out.csv")
	code, stdout, errOut := importFile(t, settings, file, "--wait", "--results", out)
	require.Equal(t, program.ExitPartial, code, errOut)
	require.Contains(t, stdout, "1500 enqueued")
	require.Contains(t, stdout, "every row with its outcome: "+out)

	content, err := os.ReadFile(out)
	require.NoError(t, err)
	lines, err := csv.NewReader(strings.NewReader(string(content))).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, rows+1)
	require.Equal(t, []string{"order_no", "timeout", "item", "amount", "_outcome"}, lines[0][:5])
	created, refused, unknown := ledger(t, url), 0, 0
	for i, line := range lines[1:] {
		require.Equal(t, fmt.Sprintf("E2E-%05d", i), line[0])
		switch line[4] {
		case "accepted":
			require.Equal(t, "yes", line[12])
			require.Equal(t, 1, created[line[0]].Created)
		case "rejected":
			refused++
			require.Equal(t, "no", line[12])
			require.Zero(t, created[line[0]].Created)
		case "unknown":
			unknown++
			require.Equal(t, "unknown", line[12])
		default:
			require.Fail(t, "row without an outcome", "%v", line)
		}
	}
	require.Positive(t, refused)

	code, stdout, _ = importFile(t, settings, file, "--json")
	require.Equal(t, program.ExitPartial, code)
	var s struct{ Fates map[string]int }
	require.NoError(t, json.Unmarshal([]byte(stdout), &s))
	want := map[string]int{"settled_accepted": rows - refused - unknown, "settled_rejected": refused}
	if unknown > 0 {
		want["settled_unknown"] = unknown
	}
	require.Equal(t, want, s.Fates)
}

// TestWrongFileIsStopped: with the pool at work, what was not posted is withdrawn, and the
// rest is settled.
func TestWrongFileIsStopped(t *testing.T) {
	t.Parallel()
	const rows = 4000
	settings, url := api(t, "--fault-slow", "1", "--slow-delay", "100ms", "--max-faults-per-order", "1")
	settings["ORDERPOST_CONCURRENCY"] = "8"
	startWorker(t, settings)
	file := writeOrders(t, rows)
	code, _, errOut := importFile(t, settings, file, "--batch", "wrong")
	require.Equal(t, program.ExitDone, code, errOut)
	require.Eventually(t, func() bool { return len(ledger(t, url)) > 0 }, patience, time.Millisecond, "the pool is at work")
	code, stdout, errOut := importFile(t, settings, "cancel", "wrong", "--json")
	var c books.Cancelled
	require.NoError(t, json.Unmarshal([]byte(stdout), &c), errOut)
	require.Positive(t, c.Withdrawn)
	require.Zero(t, c.Open)
	require.Equal(t, c.Started > 0, code == program.ExitPartial)
	q := openStreams(t, settings)
	drained(t, q)
	requireBalanced(t, q, rows)
	words := map[string]int{}
	for _, r := range collect(t, q) {
		words[r.Word]++
	}
	require.Equal(t, c.Withdrawn, words["cancelled"])
	require.Len(t, ledger(t, url), rows-c.Withdrawn, "no withdrawn order was posted")
}
