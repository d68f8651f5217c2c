package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/enqueue"
	"orderpost/internal/cli/sandbox"
	pool "orderpost/internal/cli/service"
	"orderpost/internal/cli/worker"
	"orderpost/internal/queue"
	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) { patient.Main(m) }

// patience bounds every wait of these tests.
const patience = 90 * time.Second

// pause is the time between two looks at a condition.
const pause = 10 * time.Millisecond

// process is a program that runs in this process.
type process struct {
	t      *testing.T
	name   string
	stop   context.CancelFunc
	code   chan int
	out    patient.Buffer
	errOut patient.Buffer
	ended  bool
}

// start runs a program until its end or the test's.
func start(t *testing.T, name string, run cli.RunFunc, environ map[string]string, args ...string) *process {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p := &process{t: t, name: name, stop: stop, code: make(chan int, 1)}
	go func() { p.code <- run(ctx, args, environ, strings.NewReader(""), &p.out, &p.errOut) }()
	t.Cleanup(func() { p.end() })
	return p
}

// end asks the program to stop, as SIGTERM does, and returns its exit code.
func (p *process) end() int {
	if p.ended {
		return 0
	}
	p.stop()
	return p.wait()
}

func (p *process) wait() int {
	p.t.Helper()
	select {
	case code := <-p.code:
		p.ended = true
		p.stop()
		return code
	case <-time.After(patience):
		p.t.Fatalf("%s did not end:\n%s", p.name, p.errOut.String())
		return -1
	}
}

// saw waits until the program has printed text, and returns the rest of the
// line behind it.
func (p *process) saw(where *patient.Buffer, text string) string {
	p.t.Helper()
	var rest string
	said := assert.Eventually(p.t, func() bool {
		_, after, found := strings.Cut(where.String(), text)
		line, _, whole := strings.Cut(after, "\n")
		rest = strings.TrimSpace(line)
		return found && whole
	}, patience, 5*time.Millisecond)
	require.True(p.t, said, "%s never said %q, but:\n%s", p.name, text, where)
	return rest
}

// api starts the sandbox program and returns the worker's settings for it.
func api(t *testing.T, args ...string) (settings map[string]string, url string) {
	t.Helper()
	p := start(t, "sandbox", sandbox.Run, nil, append([]string{"--addr", "127.0.0.1:0"}, args...)...)
	url = p.saw(&p.errOut, "Listening on ")
	return map[string]string{
		"ORDERPOST_API_URL": url, "ORDERPOST_API_KEY": "sandbox-key", "ORDERPOST_API_SECRET": "sandbox-secret",
		"ORDERPOST_DATA_DIR": filepath.Join(t.TempDir(), "data"), "ORDERPOST_NATS_LISTEN": "127.0.0.1:0",
		"ORDERPOST_OPS_ADDR": "", "ORDERPOST_LOG_LEVEL": "debug",
	}, url
}

// startWorker starts a worker program and waits until it works.
func startWorker(t *testing.T, settings map[string]string) *process {
	t.Helper()
	p := start(t, "worker", worker.Run, settings)
	p.saw(&p.errOut, `"message":"working"`)
	return p
}

// openStreams connects to the broker that the worker runs.
func openStreams(t *testing.T, settings map[string]string) *queue.Queue {
	t.Helper()
	cfg := queue.DefaultConfig()
	cfg.Name = "test"
	require.NoError(t, pool.JoinEmbedded(&cfg, settings["ORDERPOST_DATA_DIR"]))
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}

// drained waits until every intent is settled and acknowledged.
func drained(t *testing.T, q *queue.Queue) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := q.Census.Count(t.Context())
		return err == nil && c.LastIntent > 0 && c.Waiting == 0 && c.Pending == 0
	}, patience, 20*time.Millisecond)
}

// writeOrders writes a CSV file of n orders.
func writeOrders(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("order_no,timeout,item,amount\n")
	for i := range n {
		fmt.Fprintf(&b, "E2E-%05d,60,\"thing, %d\",%d.50\n", i, i, i)
	}
	path := filepath.Join(t.TempDir(), "orders.csv")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

// importFile runs the enqueue program and returns its exit code and output.
func importFile(t *testing.T, settings map[string]string, args ...string) (code int, out, errOut string) {
	t.Helper()
	return runProgram(t, enqueue.Run, settings, args...)
}

// runProgram runs a command to its end.
func runProgram(t *testing.T, run cli.RunFunc, settings map[string]string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e patient.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code = run(ctx, args, settings, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

// ledgerEntry is one order_no as the sandbox program tells it.
type ledgerEntry struct {
	OrderNo string `json:"order_no"`
	Created int    `json:"created"`
	Refused bool   `json:"refused"`
}

// ledger reads the sandbox's own books over HTTP.
func ledger(t *testing.T, url string) map[string]ledgerEntry {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url + "/_sandbox/orders")
	require.NoError(t, err)
	defer func() { _, _ = io.Copy(io.Discard, resp.Body); _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	out := make(map[string]ledgerEntry)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		var e ledgerEntry
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		out[e.OrderNo] = e
	}
	return out
}

// change gives the sandbox program other settings while it runs.
func change(t *testing.T, url, settings string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/_sandbox/config", strings.NewReader(settings))
	require.NoError(t, err)
	resp, err := client.Do(req)
	require.NoError(t, err)
	defer func() { _, _ = io.Copy(io.Discard, resp.Body); _ = resp.Body.Close() }()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
