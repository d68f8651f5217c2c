package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A broker that counts an intent as acknowledged that nobody acknowledged delivers it to
// nobody. The worker tells, and repair brings it back while the worker runs.
func TestAStrandedIntentIsToldAndDeliveredAgain(t *testing.T) {
	t.Parallel()
	s := openWatched(t, func(s *shop) {
		s.publish(0, 1)
		consumer, err := s.broker.JetStream(s.t).Consumer(t.Context(), "ORDERS", "workers")
		require.NoError(t, err)
		msg, err := consumer.Next()
		require.NoError(t, err)
		require.NoError(t, msg.DoubleAck(t.Context()))
	})
	s.shows("orderpost_intent_stranded 1")
	require.Contains(t, s.log.find("this intent has no outcome", "message"), "worker repair mends it")
	s.publish(1, 5) // others go on
	s.shows(`orderpost_orders_total{outcome="accepted"} 5`)
	stranded, err := s.queue.Trimmer.FirstStranded(t.Context())
	require.NoError(t, err)
	require.Equal(t, "orders.new.SECRET-NO-0", stranded.Subject)

	require.NoError(t, s.queue.Topology.RemoveConsumer(t.Context()))
	require.NoError(t, s.queue.Topology.RemoveConsumer(t.Context()), "twice is no error")
	s.shows(`orderpost_orders_total{outcome="accepted"} 6`, "orderpost_intent_stranded 0")
	require.Equal(t, 1, s.api.Created("SECRET-NO-0"))
	stranded, err = s.queue.Trimmer.FirstStranded(t.Context())
	require.NoError(t, err)
	require.Nil(t, stranded)
}
