package queue

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/duration"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// The message of an outcome expires, unless the outcome is unknown or has a
// dead letter.
func TestOutcomesExpireAndDoubtsDoNot(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"), intent("A-4", "i4"))
	verdicts := map[string]order.Verdict{"A-1": order.Accepted, "A-2": order.Duplicate, "A-3": order.Rejected, "A-4": order.Rejected}
	for _, d := range pull(t, q, 4) {
		settleAs(t, q, d, report(verdicts[d.OrderNo()], d.History))
	}
	requireDrained(t, q)
	_, err := q.Operator.Drop(t.Context(), letterOf(t, q, "A-4"), settle.Person{Name: "anna"})
	require.NoError(t, err)
	for no, ttl := range map[string]string{"A-1": "720h0m0s", "A-2": "", "A-3": "", "A-4": "720h0m0s"} {
		raw, err := q.reader.lastMsg(t.Context(), q.Conn.n.results, q.Conn.n.resPre+no)
		require.NoError(t, err)
		require.Equal(t, ttl, raw.Header.Get(jetstream.MsgTTLHeader), no)
		require.Equal(t, lookup(t, q, no).Word, raw.Header.Get(settle.HeaderOutcome))
	}
}

// A response of the largest size that the operator may configure must not make
// a result that the broker always refuses.
func TestARecordIsCutToWhatTheBrokerTakes(t *testing.T) {
	q := openSmall(t)
	publish(t, q, intent("A-1", "i1"))
	d := pull(t, q, 1)[0]
	r := report(order.Rejected, d.History)
	r.Response = strings.Repeat("\x00", 300_000) // six times as long in JSON
	settleAs(t, q, d, r)
	require.Equal(t, order.OutcomeRejected, lookup(t, q, "A-1").Outcome())
	require.Equal(t, order.OutcomeRejected, letterOf(t, q, "A-1").Outcome)
}

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
	q.Conn.cfg.ResultRetention = duration.Longest
	publish(t, q, intent("for ever", "i3"))
	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Accepted, d.History))
	require.Eventually(t, func() bool { return lookup(t, q, "done") == nil }, time.Minute, 20*time.Millisecond)
	require.Equal(t, order.OutcomeAccepted, lookup(t, q, "for ever").Outcome())
	require.Equal(t, order.OutcomeRejected, lookup(t, q, "failed").Outcome(), "its letter is there")
}
