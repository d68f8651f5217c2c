package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/deadletter"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/worker"
)

var startedWorker = worker.Run

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "orders.csv")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// closedPort is an address that nobody listens on. A port that was free a moment ago may be
// another test's by now.
const closedPort = "127.0.0.1:1"

func TestBrokerOutOfReach(t *testing.T) {
	settings, _ := api(t)
	addr := closedPort
	settings["ORDERPOST_NATS_URL"] = "nats://" + addr
	settings["ORDERPOST_NATS_CONNECT_TIMEOUT"] = "500ms"
	p := start(t, "worker", worker.Run, settings)
	require.Equal(t, cli.ExitUnreachable, p.wait())
	require.Contains(t, p.errOut.String(), addr)

	code, _, errOut := importFile(t, settings, writeFile(t, "order_no,timeout\nA-1,30\n"))
	require.Equal(t, cli.ExitUnreachable, code)
	require.Contains(t, errOut, addr)
}

func TestNoWorkerInDataFolder(t *testing.T) {
	code, _, errOut := importFile(t, map[string]string{"ORDERPOST_DATA_DIR": t.TempDir()}, writeFile(t, "order_no,timeout\nA-1,30\n"))
	require.Equal(t, cli.ExitUnreachable, code)
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
	require.Equal(t, cli.ExitFailed, p.wait())
	require.Contains(t, p.errOut.String(), other["ORDERPOST_NATS_LISTEN"]+" is taken by a foreign NATS server")
}

func addressOf(t *testing.T, settings map[string]string) string {
	t.Helper()
	q := openStreams(t, settings)
	return q.Conn.Server()
}

func TestDataFolderNotWritable(t *testing.T) {
	settings, _ := api(t)
	file := filepath.Join(t.TempDir(), "a-file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	settings["ORDERPOST_DATA_DIR"] = filepath.Join(file, "data")
	p := start(t, "worker", worker.Run, settings)
	require.Equal(t, cli.ExitFailed, p.wait())
	require.Contains(t, p.errOut.String(), file)
}

// TestWrongKeyIsToldAtStart: nothing is pulled, the exit code is that of a
// wrong configuration.
func TestWrongKeyIsToldAtStart(t *testing.T) {
	settings, _ := api(t)
	settings["ORDERPOST_API_KEY"] = "someone-elses"
	p := start(t, "worker", worker.Run, settings)
	require.Equal(t, cli.ExitUsage, p.wait())
	require.Contains(t, p.errOut.String(), "refuses the key")
	require.NotContains(t, p.errOut.String(), "someone-elses")
}

// TestOnlyWorkersMakeStreams: on a server that no worker has worked with, an
// import would store orders that nobody works off.
func TestOnlyWorkersMakeStreams(t *testing.T) {
	lone, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	require.NoError(t, err)
	lone.Start()
	t.Cleanup(func() { lone.Shutdown(); lone.WaitForShutdown() })
	require.True(t, lone.ReadyForConnections(patience))
	settings := map[string]string{"ORDERPOST_NATS_URL": lone.ClientURL(), "ORDERPOST_NATS_CONNECT_TIMEOUT": "100ms", "USER": "anna"}
	for _, c := range []struct {
		run  cli.RunFunc
		args []string
	}{
		{enqueue.Run, []string{writeOrders(t, 3)}},
		{enqueue.Run, []string{"status"}}, {enqueue.Run, []string{"order", "A-1"}}, {enqueue.Run, []string{"cancel", "b"}},
		{enqueue.Run, []string{"watch", "b"}}, {enqueue.Run, []string{"results", "b"}},
		{deadletter.Run, []string{"list"}}, {deadletter.Run, []string{"audit"}}, {deadletter.Run, []string{"replay", "--all"}},
		{worker.Run, []string{"hold"}}, {worker.Run, []string{"resume"}}, {worker.Run, []string{"limit", "none"}},
	} {
		code, out, errOut := runProgram(t, c.run, settings, c.args...)
		require.Equal(t, cli.ExitUnreachable, code, "%v: %s %s", c.args, out, errOut)
		require.Contains(t, errOut, "no stream ORDERS at "+lone.ClientURL()+": no worker has worked with this broker yet", "%v", c.args)
	}
	code, out, errOut := runProgram(t, worker.Run, settings, "fleet")
	require.Equal(t, cli.ExitFailed, code, errOut)
	require.Contains(t, out, "Missing: stream ORDERS\n")
	nc, err := nats.Connect(lone.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	info, err := js.AccountInfo(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.Streams)
}
