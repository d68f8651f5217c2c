package service_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/audit"
	"orderpost/internal/deadletter"
	"orderpost/internal/order"
	"orderpost/internal/sandbox"
	"orderpost/internal/settle"
	"orderpost/internal/submit"
	"orderpost/internal/testing/netcut"
)

// TestTheBooksBalanceWhileOrdersFlow audits again and again while orders come,
// are refused, replayed, repeated and changed, and a pool works on them.
func TestTheBooksBalanceWhileOrdersFlow(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit, func(s *sandbox.Settings) {
		s.Duplicates = sandbox.RefuseDuplicates
		s.Faults = sandbox.Faults{Refuse: 0.2, Unavailable: 0.05, MaxPerOrder: 1}
	})
	// The API refuses an order that it refused before, so the replays alone may be a run of
	// refusals. It would hold the pool until a person resumes, or an attempt now and then
	// happens to create an order.
	l := r.start("w1", &netcut.Dialer{}, http.DefaultTransport, func(c *submit.Config) { c.RefusalRun = 0 })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var flow errgroup.Group
	publish := func(no, id, qty string) error {
		_, err := l.q.Producer.Publish(ctx, settle.Intent{OrderNo: no, ID: id, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"qty":%q}`, no, qty)})
		return err
	}
	flow.Go(func() error {
		for n := 0; ctx.Err() == nil; n++ {
			no := fmt.Sprintf("A-%d", n)
			if err := publish(no, "first:"+no, "1"); err != nil {
				return err
			}
			if n >= 100 { // an order of a while ago: the same again, or another one
				no = fmt.Sprintf("A-%d", n-100)
				if err := publish(no, "second:"+no, fmt.Sprint(1+n%2)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	flow.Go(func() error {
		for ctx.Err() == nil {
			err := deadletter.LetterPages(ctx, l.q, func(page []*settle.Letter) error {
				for _, letter := range page {
					if _, err := l.q.Operator.Replay(ctx, letter, settle.ReplayOptions{}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	look := func() *audit.AuditResult {
		a, err := audit.Audit(t.Context(), l.q)
		require.NoError(t, err)
		return a
	}
	var moved, audits int
	for last := uint64(0); audits < 16 || last < 600; audits++ {
		a := look()
		if a.Intents > last {
			moved++
		}
		last = a.Intents
		require.True(t, a.Balanced(), "audit %d: %+v", audits, a)
	}
	stop()
	if err := flow.Wait(); err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Greater(t, moved, 8, "the orders did not flow")
	r.settled(l.q)
	a := look()
	require.Positive(t, a.Conflicts)
	require.Positive(t, a.Outcomes["rejected"])
	t.Logf("%d audits, %+v", audits, a)
}
