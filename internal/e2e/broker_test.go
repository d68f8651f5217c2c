package e2e

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
	"orderpost/internal/program/worker"
)

var startedWorker = worker.Run

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orders.csv")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// closedPort gives an address that nobody listens on.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestBrokerOutOfReach(t *testing.T) {
	settings, _ := api(t)
	addr := closedPort(t)
	settings["ORDERPOST_NATS_URL"] = "nats://" + addr
	settings["ORDERPOST_NATS_CONNECT_TIMEOUT"] = "500ms"
	p := start(t, "worker", worker.Run, settings)
	require.Equal(t, program.ExitUnreachable, p.wait())
	require.Contains(t, p.errOut.String(), addr)

	code, _, errOut := importFile(t, settings, writeFile(t, "order_no,timeout\nA-1,30\n"))
	require.Equal(t, program.ExitUnreachable, code)
	require.Contains(t, errOut, addr)
}

func TestNoWorkerInDataFolder(t *testing.T) {
	code, _, errOut := importFile(t, map[string]string{"ORDERPOST_DATA_DIR": t.TempDir()}, writeFile(t, "order_no,timeout\nA-1,30\n"))
	require.Equal(t, program.ExitUnreachable, code)
	require.Contains(t, errOut, "ORDERPOST_DATA_DIR")
}

// TestForeignServerOnThePort: it is named, and not joined.
func TestForeignServerOnThePort(t *testing.T) {
	settings, _ := api(t)
	first := startWorker(t, settings)
	require.NotNil(t, first)
	other := make(map[string]string)
	for k, v := range settings {
		other[k] = v
	}
	other["ORDERPOST_DATA_DIR"] = filepath.Join(t.TempDir(), "other")
	other["ORDERPOST_NATS_LISTEN"] = addressOf(t, settings)
	p := start(t, "worker", worker.Run, other)
	require.Equal(t, program.ExitFailed, p.wait())
	require.Contains(t, p.errOut.String(), other["ORDERPOST_NATS_LISTEN"]+" is taken by a foreign NATS server")
}

func addressOf(t *testing.T, settings map[string]string) string {
	t.Helper()
	q := openStreams(t, settings)
	return q.Server()
}

func TestDataFolderNotWritable(t *testing.T) {
	settings, _ := api(t)
	file := filepath.Join(t.TempDir(), "a-file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	settings["ORDERPOST_DATA_DIR"] = filepath.Join(file, "data")
	p := start(t, "worker", worker.Run, settings)
	require.Equal(t, program.ExitFailed, p.wait())
	require.Contains(t, p.errOut.String(), file)
}

// TestWrongKeyIsToldAtStart: nothing is pulled, the exit code is that of a
// wrong configuration.
func TestWrongKeyIsToldAtStart(t *testing.T) {
	settings, _ := api(t)
	settings["ORDERPOST_API_KEY"] = "someone-elses"
	p := start(t, "worker", worker.Run, settings)
	require.Equal(t, program.ExitUsage, p.wait())
	require.Contains(t, p.errOut.String(), "refuses the key")
	require.NotContains(t, p.errOut.String(), "someone-elses")
}

// TestOtherAccountIsRefused: a fleet posts to one API.
func TestOtherAccountIsRefused(t *testing.T) {
	settings, _ := api(t)
	startWorker(t, settings)
	settings["ORDERPOST_ACCOUNT_LABEL"] = "another"
	p := start(t, "worker", worker.Run, settings)
	require.Equal(t, program.ExitUsage, p.wait())
	require.Contains(t, p.errOut.String(), "ORDERPOST_ACCOUNT_LABEL")
}
