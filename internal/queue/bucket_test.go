package queue

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// A hold that the broker does not store is not waited for as one whose broker is out of
// reach: the person who wants to stop the fleet must hear of it.
func TestAHoldThatIsNotStoredIsToldSoon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(furnished(t, dir).Stop)
	q, _ := patientQueue(t, dir, time.Hour)
	q.bucket.silentTerm = time.Second
	require.NoError(t, q.Bucket().PutSoon(t.Context(), "fleet.hold", "held"))
	require.NoError(t, q.Conn.js.DeleteStream(t.Context(), q.bucket.stream())) // nobody confirms writes then, as with a full disk
	err := q.Bucket().PutSoon(t.Context(), "fleet.hold", "held")
	require.ErrorIs(t, err, ErrSilent)
	require.ErrorContains(t, err, "its disk may be full or failing")
	require.NotErrorIs(t, err, ErrUnreachable)
	_, err = q.Bucket().SwapSoon(t.Context(), "fleet.hold", "held", 1)
	require.ErrorIs(t, err, ErrSilent)
}

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
