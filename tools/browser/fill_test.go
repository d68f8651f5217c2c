package browser

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// rare stores orders with the outcomes that a sandbox and a healthy worker do not
// bring about in a second. The protocol itself settles them.
func rare(t *testing.T) func(dir string) {
	return func(dir string) {
		t.Helper()
		broker, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
		require.NoError(t, err)
		defer broker.Stop()
		cfg := queue.DefaultConfig()
		cfg.URL, cfg.Token, cfg.Name, cfg.Worker = broker.URL, broker.Token, "fill", true
		cfg.Living = func(context.Context, *queue.Bucket, string) (string, error) { return "", nil }
		q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
		require.NoError(t, err)
		defer q.Close()
		publish := func(batch, no string, row int) {
			t.Helper()
			body := fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"item":"filter Ø 40"}`, no)
			require.NoError(t, q.PublishMany(t.Context(), []settle.Intent{{OrderNo: no, Body: body, ID: batch + ":" + no, Batch: batch, Source: fmt.Sprintf("%s.csv:%d", batch, row)}})[0].Err)
		}
		publish("may", "MAY-1", 2)
		publish("may", "MAY-2", 3)
		settles := func(report order.Report, work settle.Work) {
			t.Helper()
			for settled := false; !settled; {
				require.NoError(t, q.Pull(t.Context(), 1, patience, func(ds []*settle.Delivery) {
					for _, d := range ds {
						require.Equal(t, work, d.Work, d.OrderNo())
						_, err := q.Worker.Settle(t.Context(), d, &report, order.Decide(&report, order.Facts{}))
						require.NoError(t, err)
						d.Release()
						settled = true
					}
				}))
			}
		}
		marked, err := imports.CancelBatch(t.Context(), q, "may", "bert@office")
		require.NoError(t, err)
		require.Equal(t, imports.Cancelled{Open: 2, NoWorker: true}, marked)
		view, err := fleet.New(q).Read(t.Context())
		require.NoError(t, err)
		q.Ledger.SetCancellations(view.Cancelled)
		for range 2 {
			settles(order.Report{End: order.EndCancelled, Reason: "withdrawn by a person"}, settle.WorkCancelled)
		}
		row := 1
		for _, c := range []struct {
			n        int
			prefix   string
			attempts int
			report   order.Report
		}{
			{7, "BUSY", 40, order.Report{End: order.EndTotalBudget, Verdict: order.Retry, Status: 429, Reason: "HTTP 429", Response: `{"error":"too many requests"}`}},
			{3, "LATE", 0, order.Report{End: order.EndDeadline, Reason: "its deadline passed"}},
			{2, "ODD", 0, order.Report{End: order.EndInvalid, Reason: "amount: 0.1000000000000000055 is not exact as a float64"}},
			{1, "DOUBT", 3, order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, Status: 504, Reason: "no answer"}},
			{1, "CRASH", 0, order.Report{End: order.EndPoison, Reason: "it took 3 workers down"}},
			{1, "MARKUP", 1, order.Report{End: order.EndAnswer, Verdict: order.Rejected, Status: 422, Reason: "rule 2",
				Response: `{"error":"<script>alert(1)</script><h1>no such article</h1>"}`}},
		} {
			for i := range c.n {
				row++
				no := fmt.Sprintf("%s-%03d", c.prefix, i+1)
				publish("april", no, row)
				now := time.Now().UTC()
				report := c.report
				report.History = order.History{Attempts: c.attempts, FirstAttemptAt: now, LastAttemptAt: now, Unsure: c.report.Verdict == order.Unsure}
				settles(report, settle.WorkSubmit)
			}
		}
		for pending := uint64(1); pending > 0; time.Sleep(5 * time.Millisecond) { // until all are acknowledged
			counts, err := q.Census.Count(t.Context())
			require.NoError(t, err)
			pending = counts.Pending
		}
	}
}

// fill imports a file whose orders are accepted, refused, and left without an answer.
func (s *stage) fill(flags ...string) {
	s.Helper()
	orders, err := filepath.Abs(filepath.Join("..", "..", "examples", "orders.csv"))
	require.NoError(s, err)
	s.orderpost(3, append([]string{"enqueue", orders, "--source", "march.csv", "--batch", "march", "--wait", "--quiet"}, flags...)...)
}
