package worker

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// TestALossOutlivesTheBucket: if the bucket that remembers how far the streams came is lost,
// too, what a worker has seen must not become what is left.
func TestALossOutlivesTheBucket(t *testing.T) {
	broker, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(broker.Stop)
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Present = broker.URL, broker.Token, "w-1", true, fleet.Present
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	for _, r := range q.PublishMany(t.Context(), []settle.Intent{{OrderNo: "A-1", ID: "a", Body: []byte(`{"order_no":"A-1","timeout":30}`)}}) {
		require.NoError(t, r.Err)
	}
	m := newTopologyMonitor(q, nil, zerolog.Nop(), 0, 0)
	m.compare(t.Context())
	require.Empty(t, m.losses)

	nc, err := nats.Connect(broker.URL, nats.Token(broker.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
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
