package importer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/audit"
	"orderpost/internal/fleet"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/fleettest"
	"orderpost/internal/testing/queuetest"
)

// openQueue runs a broker for one test and connects to it.
func openQueue(t testing.TB, change ...func(*queue.Config)) *queue.Queue {
	t.Helper()
	return connect(t, startBroker(t), "test", change...)
}

var (
	startBroker = queuetest.Start
	connect     = queuetest.Open
)

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
		a, err := audit.Audit(t.Context(), q)
		return err == nil && a.Unacked == 0
	}, time.Minute, 10*time.Millisecond)
}

// besideWorker calls do beside a worker that is held: it posts nothing, and settles what
// people cancel.
func besideWorker(t testing.TB, s *queuetest.Broker, do func()) {
	t.Helper()
	defer fleettest.Held(t, connect(t, s, "held"), imports.RetireCancellations)()
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
	_, err := q.Worker.Settle(context.Background(), d, &r, order.Decide(&r, facts))
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
