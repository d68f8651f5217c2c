package e2e

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// TestASenderOfItsOwnTellsImports with the rights of its role that nats.conf has for that; with its usual ones
// it says what it lacks, and tells the rest.
func TestASenderOfItsOwnTellsImports(t *testing.T) {
	t.Parallel()
	for name, granted := range map[string]bool{"as it is shipped": false, "with the rights": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSecured(t, func(c *conf) {
				text, err := os.ReadFile(c.file)
				require.NoError(t, err)
				if granted {
					c.file = writeFile(t, strings.ReplaceAll(string(text), "#settled ", ""))
				}
			})
			var mu sync.Mutex
			types := make(map[string]int)
			receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				var event notify.Event
				if json.NewDecoder(r.Body).Decode(&event) == nil {
					mu.Lock()
					defer mu.Unlock()
					types[event.Type]++
				}
			}))
			t.Cleanup(receiver.Close)
			told := func(kind string) int { mu.Lock(); defer mu.Unlock(); return types[kind] }
			settings, _ := api(t)
			worker := startWorker(t, s.as("worker", settings))
			own := start(t, "notify", orderpost.Run, s.as("notify", map[string]string{"ORDERPOST_NOTIFY_URL": receiver.URL, "ORDERPOST_NOTIFY_SECRET": notify.NewSecret(),
				"ORDERPOST_NOTIFY_TYPES": "order.*,import.settled", "ORDERPOST_NOTIFY_BEGIN": "oldest", "ORDERPOST_OPS_ADDR": "127.0.0.1:0"}), "notify")
			code, _, errOut := importFile(t, s.as("producer", nil), writeOrders(t, 5), "--wait")
			require.Equal(t, cli.ExitDone, code, errOut)
			require.Eventually(t, func() bool { return told(notify.TypeSettled) == 5 }, patience, pause)
			if granted {
				require.Eventually(t, func() bool { return told(notify.TypeImport) == 1 }, patience, pause)
			} else {
				own.saw(&own.errOut, "cannot find out which imports are settled")
			}
			require.Equal(t, cli.ExitDone, own.end())
			require.Equal(t, cli.ExitDone, worker.end())
		})
	}
}
