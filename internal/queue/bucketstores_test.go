package queue

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// TestABrokerThatStoresNothingIsNoticed: it answers every read, so that only a write shows
// that its disk is full.
func TestABrokerThatStoresNothingIsNoticed(t *testing.T) {
	q := openQueue(t, startBroker(t), "worker")
	stream, err := q.Conn.js.Stream(t.Context(), q.bucket.stream())
	require.NoError(t, err)
	cfg := stream.CachedInfo().Config
	cfg.Discard, cfg.MaxBytes = jetstream.DiscardNew, 1
	_, err = q.Conn.js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	require.Error(t, q.Bucket().Stores(t.Context()))
	_, err = q.Bucket().Now(t.Context())
	require.NoError(t, err, "it can be read")

	cfg.MaxBytes = -1
	_, err = q.Conn.js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	require.NoError(t, q.Bucket().Stores(t.Context()))
}
