package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/console"
	"orderpost/internal/order"
	settings "orderpost/internal/program"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// startConsole runs a broker and a console. It returns the address that logs in, and a
// worker's connection.
func startConsole(t *testing.T) (link string, worker *queue.Queue) {
	t.Helper()
	broker, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(broker.Stop)
	connect := func(name string, works bool) *queue.Queue {
		cfg := queue.DefaultConfig()
		cfg.URL, cfg.Token, cfg.Name, cfg.Worker = broker.URL, broker.Token, name, works
		if works {
			cfg.Present = func(context.Context, *queue.Bucket) ([]string, error) { return nil, nil }
		}
		q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
		require.NoError(t, err)
		t.Cleanup(q.Close)
		return q
	}
	worker = connect("worker", true)
	var cfg console.Config
	require.NoError(t, settings.ReadEnv(&cfg, map[string]string{"ORDERPOST_CONSOLE_LISTEN": "127.0.0.1:0"}))
	var mu sync.Mutex
	s, err := console.Listen(t.Context(), console.Options{Config: cfg, Queue: connect("console", false), DataDir: t.TempDir(), Version: "test", Starter: "anna", Log: zerolog.Nop(),
		Announce: func(line string) {
			mu.Lock()
			defer mu.Unlock()
			if _, at, found := strings.Cut(line, "minutes: "); found {
				link = at
			}
		}})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	mu.Lock()
	defer mu.Unlock()
	return link, worker
}

// accept settles n orders as accepted.
func accept(t *testing.T, q *queue.Queue, n int) {
	t.Helper()
	for n > 0 {
		require.NoError(t, q.Pull(t.Context(), min(n, 500), 5*time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				now := time.Now().UTC()
				r := order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200, History: order.History{Attempts: 1, FirstAttemptAt: now, LastAttemptAt: now}}
				_, err := q.Settle(t.Context(), d, r, order.Decide(r, order.Facts{}))
				require.NoError(t, err)
				d.Release()
				n--
			}
		}))
	}
}

// TestUpload: a person uploads a file with a mistake, imports the rest, and follows it
// to its outcomes, with scripts and without.
func TestUpload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "march.csv")
	var rows strings.Builder
	rows.WriteString("Order No;timeout;qty;note\nA-0;30;two;=1+1\n31.12.2026;30;1;<b>x</b>\n")
	for i := 1; i <= 3000; i++ {
		fmt.Fprintf(&rows, "A-%d;30;1;\n", i)
	}
	require.NoError(t, os.WriteFile(file, []byte(rows.String()), 0o600))
	for name, scripts := range map[string]bool{"with scripts": true, "without scripts": false} {
		t.Run(name, func(t *testing.T) {
			link, worker := startConsole(t)
			p := open(t, link, scripts)
			// The job ends by itself with scripts; without, the person reloads.
			sees := func(text string) {
				t.Helper()
				p.until("the page shows "+text, func() bool {
					if strings.Contains(p.text(), text) {
						return true
					}
					if !scripts {
						p.goTo(p.at())
					}
					return false
				})
			}
			p.goTo(link)
			p.click("Upload")
			p.sees("Nothing is sent to the API")
			p.accessible("Upload")
			p.upload("File of orders", file)
			p.press("Upload")
			p.sees("The console proposes these names.")
			p.accessible("an upload's columns")
			p.press("Check the file")
			sees("1 row: excel_date")
			p.accessible("an upload's check")
			p.click("Such cells of order_no are right")
			sees("Import 3,002 orders")
			p.press("Import 3,002 orders")
			sees("Follow its orders")
			p.accessible("an imported upload")
			p.click("Follow its orders")
			sees("orders have no outcome yet.")
			p.accessible("an import")
			accept(t, worker, 3002)
			sees("Every order has its outcome.")
			p.click("Cancel the import")
			p.sees("0 orders that no worker was given.")
			p.accessible("a cancellation")
			p.click("Imports")
			p.sees("march.csv")
			p.accessible("Imports")
		})
	}
}
