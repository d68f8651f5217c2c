package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// Delayed intents outlive an update of their stream and of their consumer with the same
// settings, and one with others: a worker that starts does that. In nats-server #5526 the delayed
// messages of a work queue on three servers were removed by it. ORDERS is a log, from which
// an acknowledgement removes nothing (R14).
func TestDelayedIntentsOutliveAnUpdateOfTheirStream(t *testing.T) {
	t.Parallel()
	nodes, _ := startCluster(t)
	q := openCluster(t, nodes, "a")
	const n = 10
	for i := range n {
		publish(t, q, intent(fmt.Sprint("D-", i), fmt.Sprint("i", i)))
	}
	for _, d := range pull(t, q, n) {
		require.NoError(t, q.Worker.HandBack(t.Context(), d, 3*time.Second))
		d.Release()
	}
	stream, err := q.Conn.js.Stream(t.Context(), q.Conn.n.intents)
	require.NoError(t, err)
	cfg := stream.CachedInfo().Config
	for _, most := range []int64{cfg.MaxMsgs, 1_000_000, cfg.MaxMsgs} {
		cfg.MaxMsgs = most
		require.Eventually(t, func() bool {
			_, err := q.Conn.js.UpdateStream(t.Context(), cfg)
			return err == nil
		}, time.Minute, 20*time.Millisecond)
		require.Eventually(t, func() bool {
			_, err := q.Conn.js.UpdateConsumer(t.Context(), q.Conn.n.intents, q.Topology.consumerConfig())
			return err == nil
		}, time.Minute, 20*time.Millisecond)
	}
	info, err := stream.Info(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, n, info.State.Msgs)
	for _, d := range pull(t, q, n) {
		settleAs(t, q, d, report(order.Accepted, d.History))
	}
	for i := range n {
		require.Equal(t, order.OutcomeAccepted, lookup(t, q, fmt.Sprint("D-", i)).Outcome())
	}
}
