package queuetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// patience bounds each wait for the broker.
const patience = time.Minute

// Body is an order of the given number.
func Body(no string) []byte { return fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"qty":"1"}`, no) }

// Intent is an intent with the order's body.
func Intent(no, id string) settle.Intent { return settle.Intent{OrderNo: no, Body: Body(no), ID: id} }

// Publish publishes intents, which must all be stored.
func Publish(t testing.TB, q *queue.Queue, in ...settle.Intent) {
	t.Helper()
	defer Trimming(t, q)()
	for i, r := range q.PublishMany(t.Context(), in) {
		require.NoError(t, r.Err)
		require.Equal(t, settle.Stored, r.Status, "intent %d", i)
	}
}

// Trimming trims the log of intents until it is called again or the test ends, as a worker does.
func Trimming(t testing.TB, q *queue.Queue) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			_ = q.Trimmer.Trim(ctx)
			_ = settle.Sleep(ctx, 5*time.Millisecond)
		}
	})
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

// Drained waits until every acknowledgement has arrived and the log of intents is empty.
func Drained(t testing.TB, q *queue.Queue) {
	t.Helper()
	require.Eventually(t, func() bool {
		_ = q.Trimmer.Trim(t.Context())
		room, err := q.Census.Room(t.Context())
		return err == nil && room.Msgs == 0
	}, patience, 5*time.Millisecond)
}

// Pull returns exactly n checked deliveries.
func Pull(t testing.TB, q *queue.Queue, n int) []*settle.Delivery {
	t.Helper()
	var got []*settle.Delivery
	for start := time.Now(); len(got) < n && time.Since(start) < patience; {
		require.NoError(t, q.Pull(t.Context(), n-len(got), time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
	}
	require.Len(t, got, n)
	return got
}

// Report is a submission that ended with the API's answer.
func Report(v order.Verdict, h order.History) order.Report {
	h.Attempts++
	return order.Report{End: order.EndAnswer, Verdict: v, Status: 200, History: h, Trail: []order.Attempt{{Verdict: v, Status: 200}}}
}

// Settle stores what comes of a submission.
func Settle(t testing.TB, q *queue.Queue, d *settle.Delivery, r order.Report) settle.Entry {
	t.Helper()
	entry, err := q.Worker.Settle(t.Context(), d, &r, order.Decide(&r, order.Facts{}))
	require.NoError(t, err)
	d.Release()
	return entry
}

// Letter returns the dead letter of an order; nil where it has none.
func Letter(t testing.TB, q *queue.Queue, no string) *settle.Letter {
	t.Helper()
	l, err := q.Ledger.Letter(t.Context(), no)
	require.NoError(t, err)
	return l
}

// Lookup reads the last word on an order_no.
func Lookup(t testing.TB, q *queue.Queue, no string) settle.Entry {
	t.Helper()
	entry, err := q.Ledger.Lookup(t.Context(), no)
	require.NoError(t, err)
	return entry
}

// DeadLetter brings an order to an end that files a letter.
func DeadLetter(t testing.TB, q *queue.Queue, no string) *settle.Letter {
	t.Helper()
	Publish(t, q, settle.Intent{OrderNo: no, Body: Body(no), ID: "b1:" + no, Batch: "b1", Source: "march.csv:7"})
	r := Report(order.Rejected, order.History{})
	r.Reason = "rule 2"
	Settle(t, q, Pull(t, q, 1)[0], r)
	Drained(t, q)
	return Letter(t, q, no)
}
