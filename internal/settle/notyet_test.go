package settle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// A producer publishes an intent with a time straight to the queue. It goes back until
// its time, without doubt and without an attempt.
func TestAnIntentInTheQueueWaitsForItsTime(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	at := time.Now().Add(4 * time.Second)
	put := func(no, notBefore string) {
		m := &settle.Message{Subject: "orders.new." + no, Data: body(no), Header: settle.Header{settle.HeaderNotBefore: {notBefore}, settle.HeaderIntentID: {no}}}
		status, _, err := q.Store().PublishIntent(t.Context(), m)
		require.NoError(t, err)
		require.Equal(t, settle.Stored, status)
	}
	put("A-1", at.Format(time.RFC3339Nano))
	d := pull(t, q, 1)[0]
	require.Equal(t, settle.WorkNotYet, d.Work)
	require.NoError(t, q.Worker.HandBack(t.Context(), d, time.Until(at)))
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkSubmit, d.Work)
	require.False(t, time.Now().Before(at))
	require.False(t, d.History.Unsure)
	require.Zero(t, d.Unexplained)
	settleAs(t, q, d, report(order.Accepted, order.History{Attempts: 1}))
	put("A-2", "2026-11-23T08:00:00")
	d = pull(t, q, 1)[0]
	require.Equal(t, settle.WorkInvalid, d.Work)
	require.ErrorContains(t, d.Invalid, "header Order-Not-Before: \"2026-11-23T08:00:00\" has no zone")
}
