package console

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

// childMark makes the test's own binary the console, so that its memory and its
// processor time can be measured apart from the broker's.
const childMark = "ORDERPOST_TEST_CONSOLE"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		os.Exit(Run(context.Background(), nil, cli.Environ(os.Environ()), os.Stdin, os.Stdout, os.Stderr))
	}
	patient.Main(m)
}

// TestMeasure runs the benchmark with few letters, so that it does not rot.
func TestMeasure(t *testing.T) { measure(t, 2000, 5, 100*time.Millisecond) }

// BenchmarkPages opens the console's pages over as many dead letters and results as
// -benchtime says:
//
//	go test ./internal/cli/console -run '^$' -bench Pages -benchtime 1000000x -timeout 60m
func BenchmarkPages(b *testing.B) {
	if b.N == 1 {
		return // the benchmark is tried with one letter first
	}
	measured := measure(b, b.N, 200, 30*time.Second)
	for name, value := range measured {
		b.ReportMetric(value, name)
	}
}

// measure reports what a console with size letters costs. It opens each page rounds
// times, and then leaves one page open for a while.
func measure(t testing.TB, size, rounds int, idle time.Duration) map[string]float64 {
	out := make(map[string]float64)
	s := queuetest.Start(t)
	q := queuetest.Open(t, s, "w1")
	fill(t, s.Server, size)
	fillImports(t, q, size)

	c := startConsole(t, s.Dir)
	began := time.Now()
	require.Eventually(t, func() bool {
		page, _ := c.open(t, "/letters")
		return !strings.Contains(page, " read. What you see is not all yet.")
	}, 10*time.Minute, 200*time.Millisecond)
	out["index-s"] = time.Since(began).Seconds()
	t.Logf("index of %d letters: %.1f s", size, out["index-s"])
	began = time.Now()
	require.Eventually(t, func() bool {
		page, _ := c.open(t, "/imports")
		return !strings.Contains(page, "still being counted")
	}, 10*time.Minute, 200*time.Millisecond)
	out["imports-s"] = time.Since(began).Seconds()
	t.Logf("outcomes of %d imports with %d results: %.1f s", importCount, size, out["imports-s"])

	stop := c.changes(t, q)
	no := fmt.Sprintf("A-%09d", size/2+1)
	for _, path := range []string{"/", "/letters", "/letters?outcome=unknown", "/letters?reason=status+503", "/letters?order-no=*77*", "/letters?since=1h&status=5xx",
		"/letters?from=" + strconv.Itoa(size/2), "/letters?order-no=*7&before=" + strconv.Itoa(size-9), "/order?no=" + no, "/fleet", "/journal", "/imports", "/imports?from=150", "/import?batch=import-007", c.letter(t), c.letter(t) + "/replay"} {
		var took []time.Duration
		for range rounds {
			page, d := c.open(t, path)
			require.NotContains(t, page, "That did not work", path)
			took = append(took, d)
		}
		slices.Sort(took)
		p99 := took[(len(took)-1)*99/100]
		out["worst-p99-ms"] = max(out["worst-p99-ms"], float64(p99.Microseconds())/1000)
		t.Logf("%-45s p50 %6.1f ms  p99 %6.1f ms", path, float64(took[len(took)/2].Microseconds())/1000, float64(p99.Microseconds())/1000)
	}
	stop()
	out["MiB-rss"], out["MiB-peak"] = patient.Memory(t, c.pid, "VmRSS"), patient.Memory(t, c.pid, "VmHWM")

	require.Eventually(t, func() bool { // the results of the last hour are counted in the background, too
		page, _ := c.open(t, "/")
		return !strings.Contains(page, "still counting")
	}, 10*time.Minute, time.Second)
	for _, path := range []string{"/", "/letters", "/imports"} {
		before, broker, began := c.cpu(t), ownCPU(t), time.Now()
		for time.Since(began) < idle {
			c.open(t, path)
			time.Sleep(min(3*time.Second, idle))
		}
		lasted := time.Since(began).Seconds()
		percent := 100 * (c.cpu(t) - before).Seconds() / lasted
		out["idle-%"] = max(out["idle-%"], percent)
		t.Logf("%-45s left open: %.2f %% of a core, the broker's process %.2f %%", path, percent, 100*(ownCPU(t)-broker).Seconds()/lasted)
	}
	t.Logf("memory: %.0f MiB now, %.0f MiB at most", out["MiB-rss"], out["MiB-peak"])
	return out
}

// fill stores letters and their results as workers do. Some results were written
// twice and some letters are gone, so both streams have holes, as they have in use.
func fill(t testing.TB, s *embedded.Server, size int) {
	nc, err := nats.Connect(s.URL, nats.Token(s.Token))
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4000))
	require.NoError(t, err)
	now := time.Now().UTC()
	put := func(msg *nats.Msg) {
		_, err := js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Minute))
		require.NoError(t, err)
	}
	for i := range size {
		no := fmt.Sprintf("A-%09d", i)
		rec := order.Record{OrderNo: no, Word: "exhausted", Verdict: order.Retry, Status: 503, Reason: fmt.Sprintf("refused by status %d", 500+i%7), Batch: batchOf(i, size),
			History: order.History{Attempts: 60, FirstAttemptAt: now, LastAttemptAt: now}, Position: order.Position{EnqueuedAt: now}, SettledAt: now, IntentID: fmt.Sprintf("%s:%d", batchOf(i, size), rowOf(i, size)), WriteID: no, Settled: 1, Letter: uint64(i + 1)}
		letter := settle.Letter{OrderNo: no, Outcome: order.OutcomeExhausted, Reason: rec.Reason, Verdict: rec.Verdict, Status: rec.Status, History: rec.History,
			Trail: []order.Attempt{{At: now, Verdict: order.Retry, Status: 503, Reason: rec.Reason, DurationMS: 12}}, IntentID: rec.IntentID, Batch: rec.Batch,
			Worker: "w1", Position: order.Position{EnqueuedAt: now}, FiledAt: now, Subject: "orders.new." + no}
		if i%10 == 0 {
			rec.Word, rec.Unsure, letter.Outcome, letter.Unsure = "unknown", true, order.OutcomeUnknown, true
		}
		result, err := json.Marshal(rec)
		require.NoError(t, err)
		particulars, err := json.Marshal(letter)
		require.NoError(t, err)
		record := nats.Msg{Subject: "orders.results." + no, Data: result, Header: nats.Header{settle.HeaderOutcome: {rec.Word}}}
		if i%10 == 0 {
			put(&record)
		}
		put(&record)
		put(&nats.Msg{Subject: "orders.dead." + no, Header: nats.Header{settle.HeaderOutcome: {rec.Word}, "Order-Letter": {string(particulars)}},
			Data: fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"item":"thing","amount":"12.50"}`, no)})
	}
	<-js.PublishAsyncComplete()
	letters, err := js.Stream(t.Context(), "ORDERS_DEAD")
	require.NoError(t, err)
	for seq := 5; seq < size; seq += max(1, size/1000) {
		require.NoError(t, letters.DeleteMsg(t.Context(), uint64(seq)))
	}
}

// importCount is the number of imports that the orders came in.
const importCount = 300

func batchOf(i, size int) string { return fmt.Sprintf("import-%03d", i*importCount/size) }

// rowOf is the row of order i in its import.
func rowOf(i, size int) int {
	first := (i*importCount/size*size + importCount - 1) / importCount
	return i - first + 1
}

// fillImports stores what the fleet's bucket remembers of the imports.
func fillImports(t testing.TB, q *queue.Queue, size int) {
	for i := range importCount {
		rows := (i+1)*size/importCount - i*size/importCount
		require.NoError(t, imports.SaveImport(t.Context(), q, &imports.Import{Batch: fmt.Sprintf("import-%03d", i), File: fmt.Sprintf("orders-%03d.csv", i), By: "anna",
			Rows: rows, Done: rows, StartedAt: time.Now().UTC(), Counts: map[string]int{"stored": rows}}))
	}
}

// running is a console in a process of its own, with a browser that is logged in.
type running struct {
	http.Client
	url string
	pid int
}

func startConsole(t testing.TB, dir string) *running {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ORDERPOST_") }),
		childMark+"=1", "ORDERPOST_DATA_DIR="+dir, "ORDERPOST_CONSOLE_LISTEN=127.0.0.1:0", "USER=anna", "HOME="+dir)
	says, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &running{Client: http.Client{Jar: jar, Transport: transport}, pid: cmd.Process.Pid}
	lines := bufio.NewScanner(says)
	for lines.Scan() {
		if found := loginLink.FindStringSubmatch(lines.Text()); found != nil {
			c.url, _, _ = strings.Cut(found[1], "/login")
			c.open(t, strings.TrimPrefix(found[1], c.url))
			go func() { _, _ = io.Copy(io.Discard, says) }()
			return c
		}
	}
	t.Fatal("the console says no link")
	return nil
}

// open returns a page, and how long the console took to answer.
func (c *running) open(t testing.TB, path string) (string, time.Duration) {
	began := time.Now()
	resp, err := c.Get(c.url + path) //nolint:noctx // the benchmark's own console
	require.NoError(t, err)
	page, err := io.ReadAll(resp.Body)
	took := time.Since(began)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Less(t, resp.StatusCode, 400, "%s: %s", path, page)
	return string(page), took
}

// letter is the page of a letter that can be replayed.
func (c *running) letter(t testing.TB) string {
	page, _ := c.open(t, "/letters?outcome=exhausted")
	found := regexp.MustCompile(`href="(/letters/\d+)"`).FindStringSubmatch(page)
	require.NotNil(t, found)
	return found[1]
}

// changes drops letters while pages are opened, until stop is called.
func (c *running) changes(t testing.TB, q *queue.Queue) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pages, err := q.Letters().State(ctx)
		for seq := pages.LastSeq; err == nil && ctx.Err() == nil && seq > pages.FirstSeq+500; seq -= 3 {
			if found, err := q.Letters().Get(ctx, []uint64{seq}); err == nil && found[0] != nil {
				_ = q.Store().DeleteLetter(ctx, q.Letters().Token(found[0]), seq)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// cpu returns the processor time of the console's process.
func (c *running) cpu(t testing.TB) time.Duration {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(c.pid), "stat"))
	require.NoError(t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := 0
	for _, text := range fields[11:13] { // user and system time
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // 100 ticks in a second
}

// ownCPU returns the processor time of this process, which runs the broker.
func ownCPU(t testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
