package e2e

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/orderpost"
	"orderpost/internal/notify"
)

// TestNotifyPrintsNoSecret: webhooks by a process with the rights of its role alone, while the
// receiver fails and when it is back; and within a worker. Neither logs the secret, nor the
// address's path or query.
func TestNotifyPrintsNoSecret(t *testing.T) {
	t.Parallel()
	s := startSecured(t)
	var taken atomic.Int64
	var down atomic.Bool
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
			return
		}
		taken.Add(1)
	}))
	t.Cleanup(receiver.Close)
	down.Store(true)
	secret := notify.NewSecret()
	settings, _ := api(t)
	settings["ORDERPOST_NOTIFY_URL"], settings["ORDERPOST_NOTIFY_SECRET_FILE"] = receiver.URL+"/hidden-path?token=hunter2", writeFile(t, secret)
	settings["ORDERPOST_NOTIFY_BEGIN"], settings["ORDERPOST_LOG_LEVEL"], settings["ORDERPOST_LOG_FORMAT"] = "oldest", "debug", "json"
	alone := maps.Clone(settings)
	alone["ORDERPOST_NOTIFY_URL"] = ""
	worker := startWorker(t, s.as("worker", alone))
	settings["ORDERPOST_OPS_ADDR"] = "127.0.0.1:0"
	own := start(t, "notify", orderpost.Run, s.as("notify", settings), "notify")
	code, _, errOut := importFile(t, s.as("producer", nil), writeOrders(t, 5), "--wait")
	require.Equal(t, cli.ExitDone, code, errOut)
	own.saw(&own.errOut, "the receiver did not take an event")
	down.Store(false)
	require.Eventually(t, func() bool { return taken.Load() == 5 }, patience, pause)
	require.Equal(t, cli.ExitDone, own.end())
	require.Equal(t, cli.ExitDone, worker.end())

	within := startWorker(t, s.as("worker", settings))
	code, _, errOut = importFile(t, s.as("producer", nil), writeFile(t, "order_no,timeout\nWITHIN-1,30\n"), "--wait")
	require.Equal(t, cli.ExitDone, code, errOut)
	require.Eventually(t, func() bool { return taken.Load() == 6 }, patience, pause)
	require.Equal(t, cli.ExitDone, within.end())
	for _, p := range []*process{own, within} {
		for _, never := range []string{secret, "hidden-path", "hunter2", "ermissions violation"} {
			require.NotContains(t, p.errOut.String(), never)
		}
	}
	settings["ORDERPOST_NOTIFY_SECRET_FILE"] = filepath.Join(t.TempDir(), "none")
	code, _, errOut = runProgram(t, orderpost.Run, s.as("notify", settings), "notify")
	require.Equal(t, cli.ExitUsage, code, errOut)
	require.Contains(t, errOut, "ORDERPOST_NOTIFY_SECRET_FILE")
}
