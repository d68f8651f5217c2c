package deadletter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/program"
	"orderpost/internal/program/deadletter"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// childMark makes the test's own binary the deadletter program, so that its
// memory can be measured apart from the broker's.
const (
	childMark   = "ORDERPOST_TEST_DEADLETTER"
	childMemory = "ORDERPOST_TEST_MEMORY" // file for the child's peak
)

// archive is a broker with many dead letters.
type archive struct {
	size    int
	environ []string
	stop    func()
}

// BenchmarkLetters runs the commands that read every dead letter, each in a
// process of its own, over as many letters as -benchtime says:
//
//	go test ./internal/program/deadletter -run '^$' -bench Letters -benchtime 1000000x -timeout 60m
func BenchmarkLetters(b *testing.B) {
	archives := make(map[int]*archive) // each command is tried with one letter first
	b.Cleanup(func() {
		for _, a := range archives {
			a.stop()
		}
	})
	for _, args := range []string{"list", "list --reason 503 --limit 0 --csv", "export", "export --format csv", "audit", "replay --all --dry-run"} {
		b.Run(strings.ReplaceAll(args, " ", "_"), func(b *testing.B) {
			if archives[b.N] == nil {
				archives[b.N] = newArchive(b, b.N)
			}
			b.ResetTimer()
			began := time.Now()
			peak := archives[b.N].run(b, strings.Fields(args)...)
			b.ReportMetric(time.Since(began).Seconds(), "s")
			b.ReportMetric(peak, "MiB-peak")
		})
	}
}

// run runs the program and returns its largest resident set, in MiB.
func (a *archive) run(b *testing.B, args ...string) float64 {
	b.Helper()
	var errOut bytes.Buffer
	memory := filepath.Join(b.TempDir(), "memory")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(a.environ, childMark+"="+strings.Join(args, "\n"), childMemory+"="+memory)
	cmd.Stderr = &errOut // standard output goes nowhere
	require.NoError(b, cmd.Run(), "%v: %s", args, errOut.String())
	text, err := os.ReadFile(memory)
	require.NoError(b, err)
	var kib float64
	_, err = fmt.Sscan(string(text), &kib)
	require.NoError(b, err, "%s does not tell how much memory a process took", runtime.GOOS)
	return kib / 1024
}

// beChild is the program, in the process that run starts. It tells its memory
// itself: what the kernel tells the parent includes the parent's own.
func beChild() {
	args := os.Getenv(childMark)
	if args == "" {
		return
	}
	code := deadletter.Run(context.Background(), strings.Split(args, "\n"), program.Environ(os.Environ()), os.Stdin, os.Stdout, os.Stderr)
	status, _ := os.ReadFile("/proc/self/status") // empty is seen by who reads
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	if err := os.WriteFile(os.Getenv(childMemory), []byte(peak), 0o600); err != nil {
		code = program.ExitFailed
	}
	os.Exit(code)
}

func newArchive(b *testing.B, size int) *archive {
	b.Helper()
	dir, err := os.MkdirTemp("", "orderpost-letters-*")
	require.NoError(b, err)
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(b, err)
	a := &archive{size: size, environ: []string{"ORDERPOST_DATA_DIR=" + dir, "USER=anna", "HOME=" + dir},
		stop: func() { s.Stop(); _ = os.RemoveAll(dir) }}
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Present = s.URL, s.Token, "w1", true, fleet.Present
	q, err := queue.Open(b.Context(), cfg, zerolog.Nop())
	require.NoError(b, err)
	q.Close()
	a.fill(b, s)
	return a
}

// fill stores letters and their results as the workers do, and lets the intents
// stream have had as many.
func (a *archive) fill(b *testing.B, s *embedded.Server) {
	b.Helper()
	nc, err := nats.Connect(s.URL, nats.Token(s.Token))
	require.NoError(b, err)
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4000))
	require.NoError(b, err)
	now := time.Now().UTC()
	for i := range a.size {
		no := fmt.Sprintf("A-%09d", i)
		rec := order.Record{OrderNo: no, Word: "exhausted", Verdict: order.Retry, Status: 503, Reason: fmt.Sprintf("refused by status %d", 500+i%7), Batch: "march",
			History: order.History{Attempts: 60, FirstAttemptAt: now, LastAttemptAt: now}, EnqueuedAt: now, SettledAt: now, IntentID: "b:" + no, WriteID: no, Settled: 1}
		letter := settle.Letter{OrderNo: no, Outcome: order.OutcomeExhausted, Reason: rec.Reason, Verdict: rec.Verdict, Status: rec.Status, History: rec.History,
			Trail: []order.Attempt{{At: now, Verdict: order.Retry, Status: 503, Reason: rec.Reason, DurationMS: 12}}, IntentID: rec.IntentID, Batch: rec.Batch,
			Worker: "w1", EnqueuedAt: now, FiledAt: now, Subject: "orders.new." + no}
		result, err := json.Marshal(rec)
		require.NoError(b, err)
		particulars, err := json.Marshal(letter)
		require.NoError(b, err)
		for _, msg := range []*nats.Msg{
			{Subject: "orders.results." + no, Data: result, Header: nats.Header{settle.HeaderOutcome: {rec.Word}}},
			{Subject: "orders.dead." + no, Header: nats.Header{settle.HeaderOutcome: {rec.Word}, "Order-Letter": {string(particulars)}},
				Data: fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"item":"thing","amount":"12.50"}`, no)},
		} {
			_, err := js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Minute))
			require.NoError(b, err)
		}
	}
	<-js.PublishAsyncComplete()
	intents, err := js.Stream(b.Context(), "ORDERS")
	require.NoError(b, err)
	require.NoError(b, intents.Purge(b.Context(), jetstream.WithPurgeSequence(uint64(a.size)+1)))
}
