package queue

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// startCluster runs three nodes on loopback.
func startCluster(t *testing.T) []*server.Server {
	t.Helper()
	var routes []string
	ports := make([]int, 3)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		ports[i] = l.Addr().(*net.TCPAddr).Port
		require.NoError(t, l.Close())
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[i]))
	}
	var nodes []*server.Server
	for i, port := range ports {
		opts := &server.Options{
			ServerName: fmt.Sprint("node-", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: "orders", Host: "127.0.0.1", Port: port},
			Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
		}
		s, err := server.NewServer(opts)
		require.NoError(t, err)
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		nodes = append(nodes, s)
	}
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(nodes, func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 })
	}, 20*time.Second, 20*time.Millisecond)
	return nodes
}

func openCluster(t *testing.T, nodes []*server.Server, name string) *Queue {
	t.Helper()
	var urls []string
	for _, s := range nodes {
		urls = append(urls, s.ClientURL())
	}
	cfg := DefaultConfig()
	cfg.URL, cfg.Name, cfg.Worker, cfg.Replicas, cfg.AckWait = strings.Join(urls, ","), name, true, 3, 2*time.Second
	q, err := Open(t.Context(), cfg, zerolog.Nop(), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}

// work settles what it pulls, until ctx ends, as a pool would.
func workOff(ctx context.Context, q *Queue) {
	var hands sync.WaitGroup
	for ctx.Err() == nil {
		_ = q.Pull(ctx, 32, time.Second, func(ds []*Delivery) { // refused while there is no leader: again
			for _, d := range ds {
				hands.Go(func() {
					defer d.Release()
					switch d.Work {
					case WorkSubmit:
						r := report(order.Accepted, d.History)
						_, _ = q.Settle(ctx, d, r, order.Decide(r, order.Facts{}))
					case WorkSettled:
						_ = q.Complete(ctx, d)
					default:
						_ = q.GiveUp(ctx, d)
					}
				})
			}
		})
	}
	hands.Wait()
}

// R1 and R2 on three replicas: the leader of the results is stopped while two
// workers settle. No outcome is lost or counted twice.
func TestALeaderThatIsStoppedUnderLoadLosesNothing(t *testing.T) {
	nodes := startCluster(t)
	a := openCluster(t, nodes, "a")
	b := openCluster(t, nodes, "b")
	require.Equal(t, 3, a.replicas)
	const n = 600
	var in []Intent
	for i := range n {
		in = append(in, intent(fmt.Sprint("R-", i), fmt.Sprint("i", i)))
	}
	publish(t, a, in...)
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for _, q := range []*Queue{a, b} {
		workers.Go(func() { workOff(ctx, q) })
	}
	settledBy := func(least uint64) func() bool {
		return func() bool {
			c, err := a.Count(ctx)
			return err == nil && c.Results >= least
		}
	}
	require.Eventually(t, settledBy(n/6), 20*time.Second, 5*time.Millisecond)
	stream, err := a.js.Stream(ctx, a.n.results)
	require.NoError(t, err)
	leader := stream.CachedInfo().Cluster.Leader
	i := slices.IndexFunc(nodes, func(s *server.Server) bool { return s.Name() == leader })
	nodes[i].Shutdown()

	require.Eventually(t, func() bool {
		c, err := a.Count(ctx)
		return err == nil && c.Pending == 0
	}, 60*time.Second, 20*time.Millisecond)
	stop()
	workers.Wait()
	require.Eventually(t, func() bool { // the audit reads from any replica; a follower may be a moment behind
		audit, err := a.Audit(t.Context())
		return err == nil && audit.Balanced() && audit.Settled == n && audit.Outcomes["accepted"] == n
	}, 10*time.Second, 50*time.Millisecond)
}
