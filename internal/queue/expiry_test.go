package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// TestAResultOutlivesItsLetter: results expire, but not before their letters.
// Package books tests what an audit and a replay make of that.
func TestAResultOutlivesItsLetter(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "a")
	q.Conn.cfg.ResultRetention = time.Second
	publish(t, q, intent("done", "i1"), intent("failed", "i2"))
	for _, d := range pull(t, q, 2) {
		verdict := order.Accepted
		if d.OrderNo() == "failed" {
			verdict = order.Rejected
		}
		settleAs(t, q, d, report(verdict, d.History))
	}
	require.Eventually(t, func() bool { return lookup(t, q, "done") == nil }, time.Minute, 20*time.Millisecond)
	require.Equal(t, order.OutcomeRejected, lookup(t, q, "failed").Outcome(), "its letter is there")
}
