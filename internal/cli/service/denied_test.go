package service

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// TestAWorkerThatMayRequestNoOrdersSaysSo: the broker answers no request that it denies, so the
// queue looks empty.
func TestAWorkerThatMayRequestNoOrdersSaysSo(t *testing.T) {
	t.Parallel()
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, Users: []*server.User{
		{Username: "worker", Password: "pw", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.CONSUMER.MSG.NEXT.>"}}}}}})
	require.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	require.True(t, ns.ReadyForConnections(time.Minute))
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Name, cfg.Worker, cfg.Living = "nats://worker:pw@"+ns.Addr().String(), "w-1", true, fleet.Living
	q := queuetest.Connect(t, cfg)
	m := newTopologyMonitor(q, fleet.New(q), func() bool { return true }, nil, zerolog.Nop(), 0, 0)
	_, missing := m.status()
	require.Empty(t, missing)
	require.NoError(t, q.Pull(t.Context(), 1, time.Millisecond, func([]*settle.Delivery) {}))
	require.Eventually(t, func() bool { _, missing = m.status(); return missing != "" }, time.Minute, time.Millisecond)
	require.Contains(t, missing, `the broker lets the NATS user of w-1 publish nothing to "$JS.API.CONSUMER.MSG.NEXT.ORDERS.workers"`)
}
