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

// TestAConsumerOfHeadersOnlyCostsNoBody: an order whose body the broker leaves out must not end as invalid.
// A worker that starts sets the consumer right.
func TestAConsumerOfHeadersOnlyCostsNoBody(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	in, empty := intent("A-1", "i1"), intent("A-2", "i2")
	empty.Body = nil
	publish(t, q, in)
	publish(t, q, empty)
	changed := q.Topology.consumerConfig()
	changed.HeadersOnly, changed.MaxDeliver = true, 3
	_, err := q.Conn.js.UpdateConsumer(t.Context(), "ORDERS", changed)
	require.NoError(t, err)
	bodies := make(map[string]string)
	for _, d := range pull(t, q, 2) {
		bodies[d.OrderNo()] = string(d.Intent.Body)
		d.Release()
	}
	require.Equal(t, map[string]string{"A-1": string(in.Body), "A-2": ""}, bodies)

	again, err := Open(t.Context(), q.Conn.cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(again.Close)
	c, err := q.Conn.js.Consumer(t.Context(), "ORDERS", "workers")
	require.NoError(t, err)
	require.False(t, c.CachedInfo().Config.HeadersOnly)
	require.Equal(t, -1, c.CachedInfo().Config.MaxDeliver)
}
