package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/orderpost"
)

// TestErase: no command shows what was erased, the order is created no second time, and what is restored from a
// backup does not have it.
func TestErase(t *testing.T) {
	t.Parallel()
	b := newBackedUp(t, nil)
	file := writeFile(t, "order_no,timeout,memo\nGOOD,60,anna@example.test\n")
	b.do(enqueue.Run, "producer", file, "--wait")
	change(t, b.api, `{"fault-told": 1, "told": "422 {\"error\":\"no stock for anna@example.test\"}"}`)
	code, _, _ := runProgram(t, enqueue.Run, b.as("producer", nil), writeFile(t, "order_no,timeout,memo\nBAD,60,anna@example.test\n"), "--wait")
	require.Equal(t, cli.ExitPartial, code)
	change(t, b.api, `{"fault-told": 0}`)
	shown := func() (all string) {
		for _, args := range [][]string{{"order", "GOOD"}, {"order", "BAD"}, {"order", "BAD", "--json"}, {"deadletter", "list"}, {"deadletter", "export"}, {"journal", "--json"}} {
			_, out, _ := runProgram(t, orderpost.Run, b.as("operator", nil), args...)
			all += out
		}
		return all
	}
	require.Contains(t, shown(), "anna@example.test")
	require.Contains(t, b.do(orderpost.Run, "operator", "erase", "GOOD", "BAD", "--yes"), "2 erased")
	require.NotContains(t, shown(), "anna@example.test")
	require.Contains(t, b.do(deadletter.Run, "operator", "list"), "No dead letters match")

	b.do(enqueue.Run, "producer", file, "--wait", "--batch", "again")
	require.Equal(t, 1, ledger(t, b.api)["GOOD"].Created)
	code, _, errOut := runProgram(t, orderpost.Run, b.as("operator", nil), "erase", "NEVER", "--yes")
	require.Equal(t, cli.ExitPartial, code, errOut)

	saved, folder := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
	b.do(orderpost.Run, "admin", "backup", saved)
	code, _, errOut = runProgram(t, orderpost.Run, map[string]string{"ORDERPOST_DATA_DIR": folder}, "restore", saved)
	require.Equal(t, cli.ExitDone, code, errOut)
	require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(folder, path))
		require.NotContains(t, string(text), "anna@example.test", path)
		return err
	}))
	require.Equal(t, cli.ExitDone, b.worker.end())
}
