package queue

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// A consumer that would pass over intents is none to work with.
func TestAConsumerThatPassesOverIntentsIsRefused(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	require.NoError(t, q.Conn.js.DeleteConsumer(t.Context(), "ORDERS", "workers"))
	odd := q.Topology.consumerConfig()
	odd.FilterSubject = "orders.new.A"
	_, err := q.Conn.js.CreateConsumer(t.Context(), "ORDERS", odd)
	require.NoError(t, err)
	cfg := q.Conn.cfg
	_, err = Open(t.Context(), cfg, zerolog.Nop())
	require.ErrorContains(t, err, "consumer workers of stream ORDERS: it has the filter orders.new.A, wanted none")
	require.NoError(t, q.Conn.js.DeleteConsumer(t.Context(), "ORDERS", "workers"))
	again, err := Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	again.Close()
	_, err = q.Conn.js.Consumer(t.Context(), "ORDERS", "workers")
	require.NoError(t, err)
}
