package browser

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

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
		cfg.Present = func(context.Context, *queue.Bucket) ([]string, error) { return nil, nil }
		q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
		require.NoError(t, err)
		defer q.Close()
		row := 0
		for _, c := range []struct {
			n      int
			prefix string
			report order.Report
		}{
			{7, "BUSY", order.Report{End: order.EndTotalBudget, Verdict: order.Retry, Status: 429, Reason: "answered 429", History: tried(40), Response: `{"error":"too many requests"}`}},
			{3, "LATE", order.Report{End: order.EndDeadline, Reason: "its deadline passed"}},
			{2, "ODD", order.Report{End: order.EndInvalid, Reason: "amount: 0.1000000000000000055 is not exact as a float64"}},
			{1, "CRASH", order.Report{End: order.EndPoison, Reason: "it took 3 workers down"}},
			{1, "MARKUP", order.Report{End: order.EndAnswer, Verdict: order.Rejected, Status: 422, Reason: "rule 2", History: tried(1),
				Response: `{"error":"<script>alert(1)</script><h1>no such article</h1>"}`}},
		} {
			for i := range c.n {
				row++
				no := fmt.Sprintf("%s-%03d", c.prefix, i+1)
				body := fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"item":"filter Ø 40"}`, no)
				require.NoError(t, q.PublishMany(t.Context(), []settle.Intent{{OrderNo: no, Body: body, ID: "april:" + no, Batch: "april", Source: fmt.Sprintf("april.csv:%d", row+1)}})[0].Err)
				settled := false
				for !settled {
					require.NoError(t, q.Pull(t.Context(), 1, patience, func(ds []*settle.Delivery) {
						for _, d := range ds {
							_, err := q.Settle(t.Context(), d, c.report, order.Decide(c.report, order.Facts{}))
							require.NoError(t, err)
							d.Release()
							settled = true
						}
					}))
				}
			}
		}
	}
}

// tried is the history of an order with some attempts, none of which can have created
// it.
func tried(n int) order.History {
	now := time.Now().UTC()
	return order.History{Attempts: n, FirstAttemptAt: now, LastAttemptAt: now}
}

// fill imports a file whose orders are accepted, refused, and left without an answer,
// and withdraws the two orders of another.
func (s *stage) fill() {
	s.Helper()
	orders, err := filepath.Abs(filepath.Join("..", "..", "examples", "orders.csv"))
	require.NoError(s, err)
	s.orderpost(3, "enqueue", orders, "--source", "march.csv", "--batch", "march", "--wait", "--quiet")
	s.orderpost(0, "hold", "--reason", "a change of plan")
	s.orderpost(0, "enqueue", s.file("may.csv", "order_no,timeout", "MAY-1,30", "MAY-2,30"), "--batch", "may", "--quiet")
	s.orderpost(0, "enqueue", "cancel", "may", "--note", "the customer has withdrawn both")
	s.orderpost(0, "resume")
}
