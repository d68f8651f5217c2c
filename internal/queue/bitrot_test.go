package queue_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/bitrot"
)

// One of three servers is stopped, a block of its results is damaged, and it comes back:
// nats-server #7549, of Jepsen's report on NATS 2.12.1. nats-server 2.15.2 lets such a
// replica go on without what the block held, calls it current, and lets it lead. The workers'
// watch and the audit say so, before it leads and after, while results are written and at rest.
func TestTheAuditNoticesADamagedBlockOnOneOfThreeServers(t *testing.T) {
	for name, spoil := range map[string]func(block []byte, at int) []byte{
		"a flipped bit":     bitrot.Flip,
		"a truncated block": bitrot.Cut,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes, routes := queue.StartCluster(t)
			q := queue.OpenCluster(t, nodes, "a")
			settle60(t, q)
			require.NotContains(t, audited(t, q), "replica")
			watch := q.Census.WatchReplicas()
			finds := func(want bool) {
				t.Helper()
				var seen string
				require.Eventually(t, func() bool {
					err := watch.Look(t.Context())
					seen = fmt.Sprint(watch.Gap(), err)
					return err == nil && (watch.Gap() != nil) == want
				}, 2*time.Minute, 20*time.Millisecond)
				t.Log(seen)
			}

			js := q.JetStream()
			stream, err := js.Stream(t.Context(), "ORDERS_RESULTS")
			require.NoError(t, err)
			leader := stream.CachedInfo().Cluster.Leader
			at := slices.IndexFunc(nodes, func(s *server.Server) bool { return s.Name() != leader })
			name, dir := nodes[at].Name(), nodes[at].StoreDir()
			holds := func(want uint64) bool {
				n, err := bitrot.Holds(nodes[at], "ORDERS_RESULTS")
				return err == nil && n == want
			}
			require.Eventually(t, func() bool { return holds(72) }, time.Minute, 20*time.Millisecond)
			nodes[at].Shutdown()
			nodes[at].WaitForShutdown()
			require.NoError(t, bitrot.Damage(dir, "ORDERS_RESULTS", "R-20", spoil))
			start := func() {
				nodes[at] = queue.RunServer(t, &server.Options{ServerName: name, JetStream: true, StoreDir: filepath.Dir(dir),
					Cluster: server.ClusterOpts{Name: "orders", Host: "127.0.0.1", Port: server.RANDOM_PORT, Advertise: "127.0.0.1:1"}, Routes: queue.RoutesOf(routes, at)})
				queue.RouteListens(routes, at, nodes[at].ClusterAddr().String())
			}
			start()
			healthy := func() bool {
				info, err := stream.Info(t.Context())
				return err == nil && info.Cluster.Leader != "" && !slices.ContainsFunc(info.Cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current })
			}
			require.Eventually(t, healthy, time.Minute, 20*time.Millisecond)
			stop := writeOn(t, q)
			finds(true)
			written := stop()
			require.InDelta(t, 44, watch.Gap().Lacks, 20)
			const gap = "a replica of stream ORDERS_RESULTS lacks 44 messages that another one has"
			require.Contains(t, audited(t, q), gap)

			lead := func(name string) {
				t.Helper()
				require.Eventually(t, func() bool {
					info, err := stream.Info(t.Context())
					if err != nil || info.Cluster.Leader == name {
						return err == nil
					}
					_, _ = js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN.ORDERS_RESULTS", fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, name), time.Second)
					return false
				}, time.Minute, 200*time.Millisecond)
			}
			lead(name)
			require.Contains(t, audited(t, q), gap)
			finds(true)

			// The way out, as in the runbook: another one leads, and the server begins anew.
			lead(leader)
			nodes[at].Shutdown()
			nodes[at].WaitForShutdown()
			require.NoError(t, os.RemoveAll(dir))
			start()
			require.Eventually(t, func() bool { return healthy() && holds(72+uint64(written)) }, time.Minute, 20*time.Millisecond)
			finds(false)
			require.NotContains(t, audited(t, q), "replica")
			lead(name)
			for i := range 60 {
				entry, err := q.Ledger.Lookup(t.Context(), fmt.Sprint("R-", i))
				require.NoError(t, err)
				require.NotNil(t, entry.Record, "R-%d", i)
			}
		})
	}
}

// settle60 settles 60 orders, and writes further results, so large that the stream gets
// further files.
func settle60(t *testing.T, q *queue.Queue) {
	t.Helper()
	const n = 60
	for i := range n {
		p, err := q.Producer.Publish(t.Context(), settle.Intent{OrderNo: fmt.Sprint("R-", i), Body: fmt.Appendf(nil, `{"order_no":"R-%d","timeout":30}`, i), ID: fmt.Sprint("i", i)})
		require.NoError(t, err)
		require.Equal(t, settle.Stored, p)
	}
	for done := 0; done < n; {
		require.NoError(t, q.Pull(t.Context(), n-done, time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				d.History.Attempts++
				r := order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200, History: d.History}
				_, err := q.Worker.Settle(t.Context(), d, &r, order.Decide(&r, order.Facts{}))
				assert.NoError(t, err)
				d.Release()
				done++
			}
		}))
	}
	entry, err := q.Ledger.Lookup(t.Context(), "R-0")
	require.NoError(t, err)
	for i := range 12 {
		large := *entry.Record
		large.OrderNo, large.Reason = fmt.Sprint("L-", i), strings.Repeat("x", 900<<10)
		_, err := q.Store().PutRecord(t.Context(), large.OrderNo, &large, 0)
		require.NoError(t, err)
	}
}

// writeOn writes results until stop is called, which returns how many it wrote.
func writeOn(t *testing.T, q *queue.Queue) (stop func() int) {
	t.Helper()
	entry, err := q.Ledger.Lookup(t.Context(), "R-0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	written := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			record := *entry.Record
			record.OrderNo = fmt.Sprint("W-", n)
			_, err := q.Store().PutRecord(context.WithoutCancel(ctx), record.OrderNo, &record, 0)
			assert.NoError(t, err)
			time.Sleep(time.Millisecond) // some hundred a second
		}
		written <- n
	}()
	return func() int { cancel(); return <-written }
}

func audited(t *testing.T, q *queue.Queue) string {
	t.Helper()
	audit, err := audit.Audit(t.Context(), q)
	require.NoError(t, err)
	return fmt.Sprint(audit.Offenders)
}
