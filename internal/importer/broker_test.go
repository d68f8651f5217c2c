package importer

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/books"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/program"
	"orderpost/internal/program/worker"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

var nopLog = zerolog.Nop()

// openQueue runs a broker for one test and connects to it.
func openQueue(t testing.TB, change ...func(*queue.Config)) *queue.Queue {
	t.Helper()
	return connect(t, startBroker(t), "test", change...)
}

func startBroker(t testing.TB) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

func connect(t testing.TB, s *embedded.Server, name string, change ...func(*queue.Config)) *queue.Queue {
	t.Helper()
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Present = s.URL, s.Token, name, true, fleet.Present
	for _, c := range change {
		c(&cfg)
	}
	q, err := queue.Open(context.Background(), cfg, nopLog)
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}

// publish checks and publishes a file.
func publish(t testing.TB, q *queue.Queue, f *File) *Result {
	t.Helper()
	s, err := f.Check(t.Context())
	require.NoError(t, err)
	done, err := f.Publish(t.Context(), q, s)
	require.NoError(t, err)
	return done
}

// work settles n intents as verdicts says by order number; "accepted" where it
// says nothing. People cancelled none of them.
func work(t testing.TB, q *queue.Queue, n int, verdicts map[string]order.Verdict) {
	t.Helper()
	view, err := fleet.New(q).Read(t.Context())
	require.NoError(t, err)
	q.Ledger.SetCancellations(view.Cancelled)
	for n > 0 {
		var all errgroup.Group
		require.NoError(t, q.Pull(t.Context(), min(n, 500), 5*time.Second, func(ds []*settle.Delivery) {
			n -= len(ds)
			for _, d := range ds {
				require.Equal(t, settle.WorkSubmit, d.Work, d.OrderNo())
				all.Go(func() error { return settleAs(q, d, verdicts[d.OrderNo()]) })
			}
		}))
		require.NoError(t, all.Wait())
	}
	require.Eventually(t, func() bool {
		_ = q.Trimmer.Trim(t.Context())
		a, err := books.Audit(t.Context(), q)
		return err == nil && a.Unacked == 0
	}, time.Minute, 10*time.Millisecond)
}

// besideWorker calls do beside a worker that is held: it posts nothing, and settles what
// people cancel.
func besideWorker(t testing.TB, s *embedded.Server, do func()) {
	t.Helper()
	url := strings.Replace(s.URL, "://", "://"+s.Token+"@", 1)
	cfg := queue.DefaultConfig()
	cfg.URL = url
	q, err := queue.Open(t.Context(), cfg, nopLog)
	require.NoError(t, err)
	defer q.Close()
	control := fleet.New(q)
	require.NoError(t, control.SetHold(t.Context(), fleet.Hold{Reason: "test", Since: time.Now().UTC()}))
	ctx, stop := context.WithCancel(context.Background())
	code, said := make(chan int, 1), &bytes.Buffer{}
	go func() {
		code <- worker.Run(ctx, []string{"--no-preflight"}, map[string]string{"ORDERPOST_NATS_URL": url, "ORDERPOST_API_URL": "http://127.0.0.1:9",
			"ORDERPOST_API_KEY": "key", "ORDERPOST_API_SECRET": "secret", "ORDERPOST_OPS_ADDR": ""}, nil, io.Discard, zerolog.SyncWriter(said))
	}()
	defer func() {
		stop()
		require.Equal(t, program.ExitDone, <-code, said)
		require.NoError(t, control.Resume(context.Background(), "test"))
	}()
	require.Eventually(t, func() bool {
		present, err := control.Workers(t.Context())
		return err == nil && len(present)+len(code) > 0
	}, time.Minute, 5*time.Millisecond)
	do()
}

func settleAs(q *queue.Queue, d *settle.Delivery, v order.Verdict) error {
	defer d.Release()
	if v == order.VerdictNone {
		v = order.Accepted
	}
	h := d.History
	h.Attempts++
	h.FirstAttemptAt, h.LastAttemptAt = time.Unix(1_800_000_000, 0), time.Unix(1_800_000_001, 0)
	r := order.Report{End: order.EndAnswer, Verdict: v, Status: 200, Reason: "as told", Response: "=x", History: h, Trail: []order.Attempt{{Verdict: v}}}
	facts := order.Facts{FirstProven: v == order.Duplicate}
	if v == order.Unsure {
		r.End, r.History.Unsure = order.EndTotalBudget, true
	}
	_, err := q.Worker.Settle(context.Background(), d, r, order.Decide(r, facts))
	return err
}

func numbered(from, to int, rest string) string {
	var b strings.Builder
	b.WriteString("order_no,timeout,qty\n")
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "A-%d,30,%s\n", i, rest)
	}
	return b.String()
}
