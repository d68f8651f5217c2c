package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// clusterSize is the number of nodes of the tests' cluster.
const clusterSize = 3

// startCluster runs three nodes on loopback whose routes can be cut.
func startCluster(t testing.TB) ([]*server.Server, *routes) {
	t.Helper()
	r := newRoutes(t)
	var nodes []*server.Server
	for i := range clusterSize {
		s := runServer(t, &server.Options{
			ServerName: fmt.Sprint("node-", i), JetStream: true, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: "orders", Host: "127.0.0.1", Port: server.RANDOM_PORT,
				Advertise: "127.0.0.1:1"}, // nobody listens there, so only the configured routes are used
			Routes: r.of(i),
		})
		require.Eventually(t, func() bool { return s.ClusterAddr() != nil }, time.Minute, time.Millisecond)
		r.listens(i, s.ClusterAddr().String())
		nodes = append(nodes, s)
	}
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(nodes, func(s *server.Server) bool { return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 })
	}, time.Minute, 20*time.Millisecond)
	return nodes, r
}

func openCluster(t *testing.T, nodes []*server.Server, name string, change ...func(*Config)) *Queue {
	t.Helper()
	var urls []string
	for _, s := range nodes {
		urls = append(urls, s.ClientURL())
	}
	cfg := DefaultConfig()
	cfg.URL, cfg.Name, cfg.Worker, cfg.Living, cfg.Replicas, cfg.AckWait = strings.Join(urls, ","), name, true, living, 3, 2*time.Second
	for _, c := range change {
		c(&cfg)
	}
	return openSoon(t, cfg, func() zerolog.Logger { return zerolog.Nop() }, nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
}

// openSoon connects as soon as that succeeds: a cluster that has just formed may be slow
// to elect its streams' leaders. log returns the logger of a try.
func openSoon(t *testing.T, cfg Config, log func() zerolog.Logger, opts ...nats.Option) (q *Queue) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var err error
		q, err = Open(t.Context(), cfg, log(), opts...)
		require.NoError(c, err)
	}, time.Minute, 10*time.Millisecond)
	t.Cleanup(q.Close)
	return q
}

// runServer runs a server on a free port of loopback.
func runServer(t testing.TB, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(o)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(time.Minute))
	return s
}

// posts remembers which orders were recorded as accepted, and finds those that
// are posted again.
type posts struct {
	mu       sync.Mutex
	accepted map[string]bool
	again    []string
}

func (p *posts) post(no string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.accepted[no] {
		p.again = append(p.again, no)
	}
}

func (p *posts) recorded(no string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.accepted == nil {
		p.accepted = make(map[string]bool)
	}
	p.accepted[no] = true
}

// workOff pulls until ctx ends, and lets the Handler settle what comes.
func (p *posts) workOff(ctx context.Context, q *Queue) {
	handler := settle.NewHandler(q.Worker, settle.HandlerOptions{Submit: func(_ context.Context, s *order.Submission) *order.Report {
		if s.Fence(ctx) != nil { // the claim ended while the order waited for its turn (R7)
			return &order.Report{End: order.EndLeaseLost, History: s.History}
		}
		p.post(s.Order.OrderNo())
		r := report(order.Accepted, s.History)
		return &r
	}})
	var hands sync.WaitGroup
	for ctx.Err() == nil {
		_ = q.Pull(ctx, 32, time.Second, func(ds []*settle.Delivery) { // fails while there is no leader; the loop tries again
			for _, d := range ds {
				hands.Go(func() { handler.Handle(ctx, ctx, d, p) })
			}
		})
	}
	hands.Wait()
}

// Settled implements settle.Observer.
func (p *posts) Settled(r *order.Record) { p.recorded(r.OrderNo) }

// Submitting implements settle.Observer.
func (p *posts) Submitting(ctx context.Context) context.Context { return ctx }

// Settling implements settle.Observer.
func (p *posts) Settling(order.Settlement) func(*order.Record, error) {
	return func(*order.Record, error) {}
}

// Recognised implements settle.Observer.
func (p *posts) Recognised(*order.Record) {}

// Returned implements settle.Observer.
func (p *posts) Returned(*order.Report, order.Settlement, *order.Record) {}

// Panicked implements settle.Observer.
func (p *posts) Panicked(v any) { panic(v) }

// Two workers settle orders, one of them connected to the leader of the results. That node is cut off
// from the others when some are settled: it keeps running, and its worker stays connected. When it comes
// back, the others have elected another leader. No outcome is lost or counted twice, and no order is
// posted after it was recorded as accepted (R1, R2).
func TestALeaderThatIsCutOffUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	const n = 1000
	nodes, r := startCluster(t)
	longClaims := func(c *Config) { c.AckWait = 8 * time.Second } // longer than a busy machine stands still
	q := openCluster(t, nodes, "producer", longClaims)
	require.EqualValues(t, clusterSize, q.reader.replicas.Load())
	stream, err := q.Conn.js.Stream(t.Context(), q.Conn.n.results)
	require.NoError(t, err)
	leader := slices.IndexFunc(nodes, func(s *server.Server) bool { return s.Name() == stream.CachedInfo().Cluster.Leader })
	next := (leader + 1) % clusterSize
	a, b := openCluster(t, nodes[leader:leader+1], "a", longClaims), openCluster(t, nodes[next:next+1], "b", longClaims)
	in := make([]settle.Intent, n)
	for i := range in {
		in[i] = intent(fmt.Sprint("R-", i), fmt.Sprint("i", i))
	}
	publish(t, b, in...)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var p posts
	var workers sync.WaitGroup
	for _, q := range []*Queue{a, b} {
		workers.Go(func() { p.workOff(ctx, q) })
	}
	counted := func(enough func(Counts) bool) func() bool {
		return func() bool {
			c, err := b.Census.Count(ctx)
			return err == nil && enough(c)
		}
	}
	require.Eventually(t, counted(func(c Counts) bool { return c.Results >= uint64(n/6) }), 30*time.Second, 5*time.Millisecond)
	r.isolate(leader)
	require.Eventually(t, func() bool { return nodes[leader].NumRoutes() == 0 }, time.Minute, time.Millisecond)
	c, err := b.Census.Count(ctx)
	if err == nil {
		require.Positive(t, c.Pending, "all was done before the leader was lost")
	}
	require.Eventually(t, counted(func(c Counts) bool { return c.Results >= uint64(n/2) }), 90*time.Second, 20*time.Millisecond)
	r.heal()
	require.Eventually(t, counted(func(c Counts) bool { return c.Pending == 0 }), 90*time.Second, 20*time.Millisecond)
	stop()
	workers.Wait()
	require.Eventually(t, func() bool { // a follower that lags may answer a walk
		accepted, settled := 0, 0
		err := b.Results().Walk(t.Context(), 1, ToTheEnd, func(page []*settle.Message) error {
			for _, m := range page {
				entry, err := DecodeRecord(m)
				if err != nil {
					return err
				}
				settled += entry.Record.Settled
				if entry.Record.Outcome() == order.OutcomeAccepted {
					accepted++
				}
			}
			return nil
		})
		return err == nil && accepted == n && settled == n
	}, 30*time.Second, 50*time.Millisecond)
	require.Empty(t, p.again, "posted again although they were recorded as accepted")
}
