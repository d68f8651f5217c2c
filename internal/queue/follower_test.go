package queue

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// twoNodes is a store whose batched reads go to one node of the cluster and
// whose other requests go to another.
type twoNodes struct {
	settle.Store
	batched settle.Store
	singles atomic.Int64
}

func (s *twoNodes) Records(ctx context.Context, tokens []string, found func(int, settle.Entry, error) error) error {
	return s.batched.Records(ctx, tokens, found)
}

func (s *twoNodes) Record(ctx context.Context, token string) (settle.Entry, error) {
	s.singles.Add(1)
	return s.Store.Record(ctx, token)
}

// splitCluster starts a cluster with the streams, and opens one queue at the
// leader of the results and one at a follower.
func splitCluster(t *testing.T) (r *routes, leader, follower *Queue, node *server.Server, at int) {
	t.Helper()
	nodes, r := startCluster(t)
	q := openCluster(t, nodes, "first")
	stream, err := q.Conn.js.Stream(t.Context(), q.Conn.n.results)
	require.NoError(t, err)
	first := slices.IndexFunc(nodes, func(s *server.Server) bool { return s.Name() == stream.CachedInfo().Cluster.Leader })
	at = (first + 1) % clusterSize
	require.Eventually(t, func() bool { return answersDirectly(t, nodes[at], q.Conn.n.results) }, 30*time.Second, 10*time.Millisecond)
	return r, openCluster(t, nodes[first:first+1], "leader"), openCluster(t, nodes[at:at+1], "follower"), nodes[at], at
}

// answersDirectly reports whether a node answers direct gets itself. It begins
// to a while after its replica has caught up. Until then other nodes answer for
// it.
func answersDirectly(t *testing.T, node *server.Server, stream string) bool {
	t.Helper()
	subject := "$JS.API.DIRECT.GET." + stream
	subs, err := node.Subsz(&server.SubszOptions{Subscriptions: true, Test: subject})
	require.NoError(t, err)
	routes, err := node.Routez(nil)
	require.NoError(t, err)
	return slices.ContainsFunc(subs.Subs, func(s server.SubDetail) bool {
		return s.Subject == subject && !slices.ContainsFunc(routes.Routes, func(r *server.RouteInfo) bool { return r.Rid == s.Cid })
	})
}

func putRecord(t *testing.T, q *Queue, no string, expect uint64) uint64 {
	t.Helper()
	seq, err := jetStore{q}.PutRecord(t.Context(), no, &order.Record{OrderNo: no, Word: order.OutcomeAccepted.String(), WriteID: "w"}, expect)
	require.NoError(t, err)
	return seq
}

// batched reads in one request, from whatever replica answers.
func batched(t *testing.T, q *Queue, tokens ...string) (seqs []uint64) {
	t.Helper()
	require.NoError(t, jetStore{q}.Records(t.Context(), tokens, func(_ int, e settle.Entry, err error) error {
		seqs = append(seqs, e.Seq)
		return err
	}))
	return seqs
}

// R2: a follower that is cut off from the leader keeps answering batched reads.
// Its answers lack what was confirmed since. With the barrier nobody believes
// them.
func TestR2AFollowerThatIsCutOffIsNotBelieved(t *testing.T) {
	t.Parallel()
	r, leader, follower, node, at := splitCluster(t)
	before := putRecord(t, leader, "R-0", 0)
	require.Eventually(t, func() bool { return batched(t, follower, "R-0")[0] == before }, 20*time.Second, time.Millisecond)
	r.isolate(at)
	require.Eventually(t, func() bool { return node.NumRoutes() == 0 }, 20*time.Second, time.Millisecond)
	seq := putRecord(t, leader, "R-1", 0)
	// It may have forgotten R-0 as well: a replica that is cut off while it catches up may
	// begin anew.
	require.Zero(t, batched(t, follower, "R-0", "R-1")[1], "the follower does not know of a confirmed result")
	follower.reader.replicas.Store(1) // as when it connected before there were followers
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.Error(t, follower.Results().Last(short, []string{"R-1"}, func(int, *settle.Message) {}), "listings and audits ask the leader, too")

	store := &twoNodes{Store: jetStore{leader}, batched: jetStore{follower}}
	q := settle.New(settle.Config{Worker: "split", Log: zerolog.Nop()}, store, settle.RealTime())
	got, err := q.Ledger.LastWords(t.Context(), []string{"R-0", "R-1", "R-2"})
	require.NoError(t, err)
	require.Equal(t, []uint64{before, seq, 0}, []uint64{got[0].Seq, got[1].Seq, got[2].Seq})
	require.EqualValues(t, 3, store.singles.Load(), "all of them were read at the leader")

	r.heal()
	require.Eventually(t, func() bool { // until elections end and the follower has caught up
		store.singles.Store(0)
		got, err = q.Ledger.LastWords(t.Context(), []string{"R-0", "R-1", "R-2"})
		if err != nil {
			return false // there is no leader at the moment
		}
		require.Equal(t, []uint64{before, seq, 0}, []uint64{got[0].Seq, got[1].Seq, got[2].Seq})
		return store.singles.Load() == 0
	}, 60*time.Second, 10*time.Millisecond)
}

// R2: everything that was confirmed before a batched read began is in its
// answer, even while followers lag under writes.
func TestR2ABatchedReadFromAFollowerIsExact(t *testing.T) {
	t.Parallel()
	_, leader, follower, _, _ := splitCluster(t)
	stale, last := 0, make(map[string]uint64)
	for i := range 400 {
		no := fmt.Sprint("R-", i%40)
		last[no] = putRecord(t, leader, no, last[no])
		if seen := batched(t, follower, no, "R-x")[0]; i%2 == 0 {
			if seen != last[no] {
				stale++
			}
			continue
		}
		got, err := follower.Ledger.LastWords(t.Context(), []string{no, "R-x"})
		require.NoError(t, err)
		require.Equal(t, last[no], got[0].Seq, "write %d", i)
	}
	t.Logf("without the barrier the follower was behind in %d of 200 reads", stale)
}

// R2: an operator, or a worker with another setting, can add followers to a
// stream with one replica. Workers that already run do not trust those
// followers either.
func TestR2FollowersThatComeLaterAreNotBelieved(t *testing.T) {
	t.Parallel()
	require.False(t, jetStore{openQueue(t, startBroker(t), "alone")}.Replicated())
	nodes, _ := startCluster(t)
	cfg := DefaultConfig()
	cfg.URL, cfg.Name, cfg.Worker, cfg.Living = nodes[0].ClientURL(), "early", true, living
	early := openSoon(t, cfg, func() zerolog.Logger { return zerolog.Nop() })
	results := early.Conn.cfg.streams()[1].config
	results.Replicas = clusterSize
	require.Eventually(t, func() bool {
		_, err := early.Conn.js.UpdateStream(t.Context(), results)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	require.EqualValues(t, 1, early.reader.replicas.Load())
	require.True(t, jetStore{early}.Replicated())
}
