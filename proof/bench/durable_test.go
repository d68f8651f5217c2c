package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/submit"
)

// TestMain lets the bench start this program as it starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		cli.Main(Run)
	}
	os.Exit(m.Run())
}

// TestDurable: the README's way, with real processes. A trial fails unless every order has
// an outcome.
func TestDurable(t *testing.T) {
	fsync, rows := "0,1ms", 5
	if runtime.GOOS != "linux" { // fsyncs cannot be counted
		fsync, rows = unwatchedWord, 3
	}
	var out, errOut bytes.Buffer
	code := Run(t.Context(), []string{"--cases", "durable", "--contenders", "ours", "--orders", "200", "--rounds", "1", "--fsync", fsync, "--disk", onDisk(t), "--json"}, nil, nil, &out, &errOut)
	require.Zero(t, code, errOut.String())
	var r report
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Len(t, r.Tables, 1)
	require.Len(t, r.Tables[0].Outcomes, rows, "each delay with both policies, and once in memory")
	for _, row := range r.Tables[0].Outcomes {
		require.Len(t, row.Rounds, 1)
		require.Empty(t, row.Rounds[0].Failed, row.Name)
		require.Positive(t, row.Rounds[0].Rate, row.Name)
		if fsync != unwatchedWord && !strings.HasPrefix(row.Name, inMemory) {
			require.Positive(t, row.Rounds[0].Fsyncs["ORDERS_RESULTS"], row.Name)
		}
	}
}

// onDisk makes a folder where this program is: the temporary folder may be in memory.
func onDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(".", "disk-*")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	dir, err = filepath.Abs(dir)
	require.NoError(t, err)
	return dir
}

// TestSyncedPart: what was synced has the name of its stream, file or folder.
func TestSyncedPart(t *testing.T) {
	for path, part := range map[string]string{
		"/disk/data/jetstream/jetstream/$G/streams/ORDERS/msgs/1.blk": "ORDERS",
		"/disk/data/pg_wal/000000010000000000000001":                  "pg_wal",
		"/disk/data": "folder",
	} {
		require.Equal(t, part, syncedPart(path, "/disk/data"))
	}
}

// TestDefaultSlots: the other job queues have as many orders in flight as the worker.
func TestDefaultSlots(t *testing.T) {
	field, ok := reflect.TypeFor[submit.Config]().FieldByName("Concurrency")
	require.True(t, ok)
	require.Equal(t, strconv.Itoa(defaultSlots), field.Tag.Get("envDefault"))
}
