package books

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// TestBooksThatAreOlderThanTheirResults: the books of an installation that is
// older than its results balance, and what is missing without that reason is named.
func TestBooksThatAreOlderThanTheirResults(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	const retention = time.Millisecond // the streams are older by the time of the first audit
	look := func(retention time.Duration) *AuditResult {
		a, err := audit(t.Context(), q, retention, nil)
		require.NoError(t, err)
		return a
	}
	results, err := s.JetStream(t).Stream(t.Context(), "ORDERS_RESULTS")
	require.NoError(t, err)
	expire := func(no string) { require.NoError(t, results.DeleteMsg(t.Context(), lookup(t, q, no).Seq)) }

	publish(t, q, intent("done", "i1"), intent("failed", "i2"), intent("conflict", "i3"))
	for _, d := range pull(t, q, 3) {
		verdict := order.Accepted
		if d.OrderNo() == "failed" {
			verdict = order.Rejected
		}
		settleAs(t, q, d, report(verdict, d.History))
	}
	requireDrained(t, q)
	publish(t, q, settle.Intent{OrderNo: "conflict", Body: []byte(`{"order_no":"conflict","timeout":30,"qty":"2"}`), ID: "i4"})
	d := pull(t, q, 1)[0]
	_, err = q.Worker.Refuse(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	requireDrained(t, q)
	requireBalanced(t, q)

	expire("done")
	expire("conflict")
	a := look(retention)
	require.True(t, a.Balanced(), "%+v", a)
	require.EqualValues(t, 3, a.Expired, "one, and two of the order that was asked for twice")
	require.EqualValues(t, 2, a.Letters)
	require.Zero(t, a.Orphans)
	require.Equal(t, settle.ReplayAccepted, replay(t, q, letterOf(t, q, "conflict"), settle.ReplayOptions{ResubmitUnknown: true}), "it was accepted, although nothing else says so any more")

	expire("failed") // as earlier versions' results did
	a = look(retention)
	require.True(t, a.Balanced(), "%+v", a)
	require.EqualValues(t, 1, a.Orphans)
	a = look(time.Hour)
	require.False(t, a.Balanced(), "it cannot have expired")
	require.Equal(t, 1, a.OffenderCount)
	require.Zero(t, a.Expired)
	require.Equal(t, settle.Replayed, replay(t, q, letterOf(t, q, "failed"), settle.ReplayOptions{}), "what is lost here is in the letter")
}

// TestAnAuditReadsTheWorkersRetention from their results: whoever audits may have another setting, and would
// call what expired a loss.
func TestAnAuditReadsTheWorkersRetention(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "a")
	publish(t, q, intent("done", "i1"), intent("kept", "i2"))
	for _, d := range pull(t, q, 2) {
		settleAs(t, q, d, report(order.Accepted, d.History))
	}
	requireDrained(t, q)
	results, err := s.JetStream(t).Stream(t.Context(), "ORDERS_RESULTS")
	require.NoError(t, err)
	require.NoError(t, results.DeleteMsg(t.Context(), lookup(t, q, "done").Seq))
	l := newAuditor(q, 1000*time.Hour)
	require.NoError(t, l.look(t.Context()))
	require.Equal(t, q.ResultRetention(), l.retention, "not its own")
	require.False(t, l.a.Balanced(), "the results are younger than that")
}
