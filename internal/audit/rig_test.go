package audit

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

// What the tests do to a queue.
var (
	startBroker    = queuetest.Start
	openQueue      = queuetest.Open
	body           = queuetest.Body
	intent         = queuetest.Intent
	publish        = queuetest.Publish
	pull           = queuetest.Pull
	report         = queuetest.Report
	settleAs       = queuetest.Settle
	lookup         = queuetest.Lookup
	letterOf       = queuetest.Letter
	requireDrained = queuetest.Drained
	deadLetter     = queuetest.DeadLetter
)

func requireBalanced(t *testing.T, q *queue.Queue) *AuditResult {
	t.Helper()
	a, err := Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	return a
}

// record is what a worker writes of an accepted order.
func record(no string, seq uint64, now time.Time) *order.Record {
	r := &order.Record{OrderNo: no, Verdict: order.Accepted, Status: 201, Reason: "status 201", IntentID: "march:" + no, Batch: "march", Source: "march.csv:" + fmt.Sprint(seq),
		Worker: "worker-1", BodyHash: fmt.Sprintf("%064d", seq), WriteID: fmt.Sprintf("%026d", seq), Settled: 1, SettledAt: now,
		Response: fmt.Sprintf(`{"order_no":%q,"state":"created","id":"%040d"}`, no, seq)}
	r.SetOutcome(order.OutcomeAccepted)
	r.Attempts, r.FirstAttemptAt, r.LastAttemptAt, r.LastTimestamp = 1, now, now, now.UnixMilli()
	r.EnqueuedAt, r.Seq, r.Birth = now, seq, 1
	return r
}

// changeRecordOf writes the record of an order again.
func changeRecordOf(t testing.TB, q *queue.Queue, no string, change func(*order.Record)) {
	t.Helper()
	entry, err := q.Store().Record(t.Context(), order.Token(no))
	require.NoError(t, err)
	change(entry.Record)
	_, err = q.Store().PutRecord(t.Context(), order.Token(no), entry.Record, entry.Seq)
	require.NoError(t, err)
}
