package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// TestALetterOutlivesNoResult: results expire, but not before their letters;
// and the books of an installation that is older than its results balance.
func TestALetterOutlivesNoResult(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "a")
	q.cfg.ResultRetention = time.Second
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
	_, err := q.Refuse(t.Context(), d)
	require.NoError(t, err)
	d.Release()
	requireDrained(t, q)
	requireBalanced(t, q)

	require.Eventually(t, func() bool { return lookup(t, q, "done") == nil && lookup(t, q, "conflict") == nil }, 10*time.Second, 20*time.Millisecond)
	require.Equal(t, order.OutcomeRejected, lookup(t, q, "failed").Outcome(), "its letter is there")
	a := requireBalanced(t, q)
	require.EqualValues(t, 3, a.Expired, "one, and two of the order that was asked for twice")
	require.EqualValues(t, 2, a.Letters)
	require.Zero(t, a.Orphans)
	require.Equal(t, settle.ReplayAccepted, replay(t, q, letterOf(t, q, "conflict"), settle.ReplayOptions{ResubmitUnknown: true}), "it was accepted, although nothing else says so any more")

	entry, err := q.Lookup(t.Context(), "failed")
	require.NoError(t, err)
	stream, err := q.js.Stream(t.Context(), q.n.results)
	require.NoError(t, err)
	require.NoError(t, stream.DeleteMsg(t.Context(), entry.Seq)) // as earlier versions' results expire
	a = requireBalanced(t, q)
	require.EqualValues(t, 1, a.Orphans)
	q.cfg.ResultRetention = time.Hour
	a, err = q.Audit(t.Context())
	require.NoError(t, err)
	require.False(t, a.Balanced(), "it cannot have expired")
	require.Equal(t, 1, a.OffenderCount)
	require.Zero(t, a.Expired)
	require.Equal(t, settle.Replayed, replay(t, q, letterOf(t, q, "failed"), settle.ReplayOptions{}), "what is lost here is in the letter")
}
