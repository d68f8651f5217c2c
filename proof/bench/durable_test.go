package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
	"orderpost/internal/submit"
)

// TestMain lets the bench start this program as it starts itself.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		program.Main(Run)
	}
	os.Exit(m.Run())
}

// TestDurable: the README's way, with real processes. A trial fails unless every order has
// an outcome.
func TestDurable(t *testing.T) {
	fsync, rows := untracedWord, 3
	if checkStrace(t.Context()) == nil {
		fsync, rows = "0,1ms", 5
	}
	var out, errOut bytes.Buffer
	code := Run(t.Context(), []string{"--cases", "durable", "--contenders", "ours", "--orders", "200", "--rounds", "1", "--fsync", fsync, "--disk", t.TempDir(), "--json"}, nil, nil, &out, &errOut)
	require.Zero(t, code, errOut.String())
	var r report
	require.NoError(t, json.Unmarshal(out.Bytes(), &r))
	require.Len(t, r.Tables, 1)
	require.Len(t, r.Tables[0].Outcomes, rows, "each delay with both policies, and once in memory")
	for _, row := range r.Tables[0].Outcomes {
		require.Len(t, row.Rounds, 1)
		require.Empty(t, row.Rounds[0].Failed, row.Name)
		require.Positive(t, row.Rounds[0].Rate, row.Name)
		if fsync != untracedWord {
			require.Positive(t, row.Rounds[0].Fsyncs["ORDERS_RESULTS"], row.Name)
		}
	}
}

// TestStraceLines: every fsync between two moments counts once, under the name of its
// stream, file or folder.
func TestStraceLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "strace.txt")
	require.NoError(t, os.WriteFile(path, []byte(`7 100.000001 fsync(9</disk/data/jetstream/$G/streams/EARLY/msgs/1.blk>) = 0
7 101.000001 fsync(9</disk/data/jetstream/$G/streams/ORDERS/msgs/1.blk> <unfinished ...>
12 101.000002 fdatasync(4</disk/data/pg_wal/000000010000000000000001>) = 0 (DELAYED)
7 101.000003 <... fsync resumed>) = 0 (DELAYED)
7 101.000004 fsync(9</disk/data/jetstream/$G/streams/ORDERS/msgs/index.db>) = 0
7 101.000005 fsync(9</disk/data>) = 0
7 109.000001 fsync(9</disk/data/late>) = 0
12 109.000001 +++ exited with 0 +++
7 109.000002 +++ exited with 0 +++
`), 0o600))
	counts, err := straced{out: path}.count(7, time.Unix(101, 0), time.Unix(102, 0), "/disk/data")
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"ORDERS": 2, "pg_wal": 1, "folder": 1}, counts)

	command := straced{out: path, delay: fsyncDelay(2 * time.Millisecond)}.wrap("worker", "--flag")
	require.Equal(t, "strace", command[0])
	require.Equal(t, []string{"inject=fsync,fdatasync:delay_exit=2000", "worker", "--flag"}, command[len(command)-3:])
}

// TestDefaultSlots: the other job queues have as many orders in flight as the worker.
func TestDefaultSlots(t *testing.T) {
	field, ok := reflect.TypeFor[submit.Config]().FieldByName("Concurrency")
	require.True(t, ok)
	require.Equal(t, strconv.Itoa(defaultSlots), field.Tag.Get("envDefault"))
}
