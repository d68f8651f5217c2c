package worker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// R4: a worker removes the dead letters that no record names, but none while a stream lacks its end.
func TestR4AWorkerSweepsDeadLetters(t *testing.T) {
	s := queuetest.Start(t)
	q := queuetest.Open(t, s, "w1")
	q.Sweeper = settle.New(settle.Config{Worker: "w1", IntentSubjects: "orders.new.", SweepAfter: 1}, q.Store(), settle.RealTime()).Sweeper
	p := &Pool{PoolOptions: PoolOptions{Queue: q}}
	sweep := func() int {
		p.lettersAt = time.Time{} // a minute later
		n, err := p.sweepLetters(t.Context())
		require.NoError(t, err)
		return n
	}
	queuetest.Publish(t, q, queuetest.Intent("A-1", "i1"))
	queuetest.Settle(t, q, queuetest.Pull(t, q, 1)[0], queuetest.Report(order.Rejected, order.History{}))
	queuetest.Drained(t, q)
	named := queuetest.Letter(t, q, "A-1")
	left, err := q.Store().PutLetter(t.Context(), "A-1", named)
	require.NoError(t, err)
	require.Zero(t, sweep(), "how old it is is not known")
	n, err := p.sweepLetters(t.Context())
	require.NoError(t, err)
	require.Zero(t, n, "once a minute")
	require.Equal(t, 1, sweep())
	requireLetters(t, q, map[uint64]bool{named.Seq: true, left: false})

	_, now, err := q.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, q.Extents.RememberExtents(t.Context(), now, now))
	js := s.JetStream(t)
	results, err := js.Stream(t.Context(), "ORDERS_RESULTS")
	require.NoError(t, err)
	config := results.CachedInfo().Config
	require.NoError(t, js.DeleteStream(t.Context(), "ORDERS_RESULTS"))
	_, err = js.CreateStream(t.Context(), config)
	require.NoError(t, err)
	left, err = q.Store().PutLetter(t.Context(), "A-1", named)
	require.NoError(t, err)
	for range 3 {
		require.Zero(t, sweep())
	}
	requireLetters(t, q, map[uint64]bool{left: true})
}

// requireLetters checks which letters of A-1 are stored.
func requireLetters(t *testing.T, q *queue.Queue, stored map[uint64]bool) {
	t.Helper()
	for seq, want := range stored {
		l, err := q.Store().Letter(t.Context(), "A-1", seq)
		require.NoError(t, err)
		require.Equal(t, want, l != (*settle.Letter)(nil))
	}
}
