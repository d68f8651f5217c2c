package door

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/testing/queuetest"
)

// TestARightThatIsMissing is told as what it is, and not as an answer that did not come:
// nothing was stored. It says what the broker denies to whom.
func TestARightThatIsMissing(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, Users: []*server.User{
		{Username: "worker", Password: "pw"},
		{Username: "shop", Password: "pw", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"orders.new.*", "orders.waiting.>"}}}}}})
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	require.True(t, ns.ReadyForConnections(time.Minute))
	connect := func(user string, change func(*queue.Config)) *queue.Queue {
		cfg := queue.DefaultConfig()
		cfg.URL, cfg.Name = "nats://"+user+":pw@"+ns.Addr().String(), user
		change(&cfg)
		return queuetest.Connect(t, cfg)
	}
	worker := connect("worker", func(cfg *queue.Config) { cfg.Worker, cfg.Living = true, fleet.Living })
	q := connect("shop", func(cfg *queue.Config) { cfg.BrokerWait = time.Hour })
	d := New(q, nil)
	t.Cleanup(d.Close)
	require.Empty(t, q.Conn.Unusable())
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // less than a request to the broker may take
	defer cancel()
	denied := func(err error, subject string) {
		t.Helper()
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorContains(t, err, `the NATS user of shop publish nothing to "`+subject)
	}
	_, err = d.Submit(ctx, one("A", ""))
	denied(err, "orders.new.A")
	require.Contains(t, q.Conn.Unusable(), `"orders.new.A"`)
	_, err = d.Submit(ctx, one("A", "shop:1"))
	denied(err, "orders.new.A")
	_, err = d.Submit(ctx, Order{Body: body("A", "1"), Lane: order.BulkLane})
	denied(err, "orders.waiting.")
	for _, err := range d.SubmitAll(ctx, func(yield func(Order) bool) {
		for i := range 300 {
			if !yield(one(fmt.Sprint("M-", i), "")) {
				return
			}
		}
	}) {
		denied(err, "orders.new.M-")
	}
	state, err := worker.Intents().State(t.Context())
	require.NoError(t, err)
	require.Zero(t, state.LastSeq)
}
