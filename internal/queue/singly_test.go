package queue

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// TestALargeStreamWithHolesIsReadWhole: every message is read once and in order,
// wherever the holes are, also by requests for one message each.
func TestALargeStreamWithHolesIsReadWhole(t *testing.T) {
	t.Parallel()
	q := openQueue(t, startBroker(t), "w1")
	const n = 2*fewMessages + 5
	for i := range n {
		_, err := q.Conn.js.PublishAsync(fmt.Sprint("orders.dead.A-", i), []byte("x"), jetstream.WithStallWait(time.Minute))
		require.NoError(t, err)
	}
	<-q.Conn.js.PublishAsyncComplete()
	s := q.Letters()
	gone := make(map[uint64]bool)
	remove := func(seqs ...uint64) {
		for _, seq := range seqs {
			require.NoError(t, q.reader.deleteMsg(t.Context(), q.Conn.n.dead, seq))
			gone[seq] = true
		}
	}
	read := func(first, last uint64) {
		t.Helper()
		want := first
		for ; gone[want]; want++ {
		}
		require.NoError(t, s.Walk(t.Context(), first, last, func(page []*settle.Message) error {
			require.LessOrEqual(t, len(page), pageSize)
			for _, m := range page {
				require.Equal(t, want, m.Seq)
				for want++; gone[want]; want++ {
				}
			}
			return nil
		}))
		require.Greater(t, want, min(last, n))
		holes, state, err := s.Gaps(t.Context())
		require.NoError(t, err)
		for _, seq := range holes {
			require.True(t, gone[seq])
		}
		require.Equal(t, uint64(len(gone)), n-state.Messages)
	}
	read(1, ToTheEnd) // no holes
	remove(2, 3, 500, 512, 513, 514, 5000, n-1)
	state, err := s.State(t.Context())
	require.NoError(t, err)
	require.True(t, state.holey())
	read(1, ToTheEnd)
	read(700, 4000)
	for seq := uint64(6000); seq < 8000; seq++ {
		remove(seq)
	}
	remove(1, n) // the ends
	read(1, ToTheEnd)
	read(6500, 7500)
	read(7990, n)
	found, err := s.Get(t.Context(), []uint64{9, 2, n - 2, n, n + 7})
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true, false, false}, []bool{found[0] != nil, found[1] != nil, found[2] != nil, found[3] != nil, found[4] != nil})
	require.Equal(t, "orders.dead.A-8", found[0].Subject)
	first, err := s.At(t.Context(), found[2].Time.Add(-time.Nanosecond))
	require.NoError(t, err)
	require.LessOrEqual(t, first, uint64(n-2))
	first, err = s.At(t.Context(), time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Zero(t, first)
}

// A replica that has nothing yet answers a part of the requests, as one does that lags. It
// hides no message, neither in the middle of a walk nor at its end.
func TestAReplicaThatLagsHidesNothingOfAWalk(t *testing.T) {
	t.Parallel()
	node := runServer(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
	q := openCluster(t, []*server.Server{node}, "w1", func(c *Config) { c.Replicas = 1 })
	for i := range fewMessages + 3000 {
		_, err := q.Conn.js.PublishAsync(fmt.Sprint("orders.dead.A-", i), []byte("x"), jetstream.WithStallWait(time.Minute))
		require.NoError(t, err)
	}
	<-q.Conn.js.PublishAsyncComplete()
	s := q.Letters()
	whole := func() {
		t.Helper()
		state, err := s.State(t.Context())
		require.NoError(t, err)
		var n, before uint64
		require.NoError(t, s.Walk(t.Context(), 1, ToTheEnd, func(page []*settle.Message) error {
			for _, m := range page {
				require.Greater(t, m.Seq, before)
				before = m.Seq
				n++
			}
			return nil
		}))
		require.Equal(t, state.Messages, n)
	}
	var answered atomic.Int64
	nc, err := nats.Connect(node.ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	_, err = nc.Subscribe("lagging", func(m *nats.Msg) {
		answered.Add(1)
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}})
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	const reads = "$JS.API.DIRECT.GET.ORDERS_DEAD"
	require.NoError(t, node.GlobalAccount().AddWeightedMappings(reads, server.NewMapDest(reads, 67), server.NewMapDest("lagging", 33)))
	whole()
	require.Positive(t, answered.Load(), "it was asked")
	for _, seq := range []uint64{2, 500, fewMessages, fewMessages + 3000} { // the last one, too
		require.NoError(t, q.reader.deleteMsg(t.Context(), q.Conn.n.dead, seq))
	}
	answered.Store(0)
	whole()
	require.Greater(t, answered.Load(), int64(readsAtOnce))
}
