package service

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/queuetest"
)

// TestALossOutlivesTheBucket: if the bucket that remembers how far the streams came is lost,
// too, what a worker has seen must not become what is left.
func TestALossOutlivesTheBucket(t *testing.T) {
	broker := queuetest.Start(t)
	q := queuetest.Open(t, broker, "w-1")
	queuetest.Publish(t, q, queuetest.Intent("A-1", "a"))
	m := newTopologyMonitor(q, nil, nil, nil, zerolog.Nop(), 0, 0)
	m.compare(t.Context())
	require.Empty(t, m.losses)

	js := broker.JetStream(t)
	stream, err := js.Stream(t.Context(), "ORDERS")
	require.NoError(t, err)
	require.NoError(t, js.DeleteStream(t.Context(), "ORDERS"))
	_, err = js.CreateStream(t.Context(), stream.CachedInfo().Config)
	require.NoError(t, err)
	require.NoError(t, q.Bucket().Erase(t.Context(), "extents"))
	for range 3 {
		m.compare(t.Context())
		require.Len(t, m.losses, 1)
	}
	losses, _, err := q.Extents.Losses(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, losses, 1, "a person's repair sees it, too")
}
