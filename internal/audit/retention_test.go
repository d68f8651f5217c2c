package audit

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// forgets waits until what is stored now is older than the retention, and forgotten.
func forgets(t *testing.T, q *queue.Queue, want int) {
	t.Helper()
	q.Retention.Keep = 300 * time.Millisecond
	got := 0
	require.Eventually(t, func() bool {
		n, err := q.Retention.Run(t.Context())
		require.NoError(t, err)
		got += n
		return got >= want
	}, time.Minute, 20*time.Millisecond)
	require.Equal(t, want, got)
}

// R11: results that nothing needs any more are forgotten after the retention, and the intents that they
// settled stay in the books. What is in doubt, under way, or has a dead letter stays.
func TestR11WhatIsForgottenStaysInTheBooks(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	publish(t, q, intent("done", "i1"), intent("failed", "i2"), intent("conflict", "i3"), intent("unknown", "i4"))
	for _, d := range pull(t, q, 4) {
		r := report(order.Accepted, d.History)
		switch d.OrderNo() {
		case "failed":
			r = report(order.Rejected, d.History)
		case "unknown":
			r = order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, History: order.History{Attempts: 3, Unsure: true}}
		}
		settleAs(t, q, d, r)
	}
	publish(t, q, settle.Intent{OrderNo: "conflict", Body: []byte(`{"order_no":"conflict","timeout":30,"qty":"2"}`), ID: "i7"})
	d := pull(t, q, 1)[0]
	_, err := q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	requireDrained(t, q) // while its intent is stored, a result is needed
	publish(t, q, intent("noted", "i5"))
	d = pull(t, q, 1)[0]
	settleAs(t, q, d, order.Report{End: order.EndSubmissionBudget, Verdict: order.Retry, Delay: time.Hour, History: d.History})
	before := requireBalanced(t, q)
	seqs := make(map[string]settle.Entry)
	for _, no := range []string{"done", "failed", "conflict", "unknown", "noted"} {
		seqs[no] = lookup(t, q, no)
	}
	forgets(t, q, 1)
	a := requireBalanced(t, q)
	require.EqualValues(t, 1, a.Forgotten)
	require.Equal(t, before.Intents, a.Intents)
	for no, was := range seqs {
		now := lookup(t, q, no)
		switch no {
		case "done":
			require.Nil(t, now.Record, no)
		default:
			require.GreaterOrEqual(t, now.Seq, was.Seq, no)
			require.Equal(t, was.Record, now.Record, no)
		}
	}
	for no, want := range map[string]settle.Replay{"failed": settle.Replayed, "conflict": settle.ReplayAccepted} {
		end, err := q.Operator.Replay(t.Context(), letterOf(t, q, no), settle.ReplayOptions{ResubmitUnknown: true})
		require.NoError(t, err)
		require.Equal(t, want, end, no)
	}
}
