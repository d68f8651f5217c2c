package queue

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
)

// The leader of the consumer changes while a worker holds an intent that waited in the
// queue for longer than AckWait. The next leader does not take it for one that nobody
// acknowledged in time.
func TestR7ANewLeaderOfTheConsumerKnowsWhoHoldsAnIntent(t *testing.T) {
	t.Parallel()
	const ackWait = 6 * time.Second // a third of the term is longer than a new leader waits before it looks
	nodes, _ := startCluster(t)
	a, b := openCluster(t, nodes, "a", func(c *Config) { c.AckWait = ackWait }), openCluster(t, nodes, "b", func(c *Config) { c.AckWait = ackWait })
	publish(t, a, intent("A-1", "i1"))
	published := time.Now()
	require.Eventually(t, func() bool { return time.Since(published) > ackWait }, 2*ackWait, 10*time.Millisecond)
	consumer, err := a.Topology.readConsumer(t.Context())
	require.NoError(t, err)
	group := consumer.Cluster.RaftGroup
	logged := raftIndex(nodes, group)
	d := pull(t, a, 1)[0]
	defer d.Release()
	// Every server knows the pull, the delivery and the first request for more time.
	// Before that the gap is open which docs/protocol.md describes under R7.
	require.Eventually(t, func() bool { return raftIndex(nodes, group) >= logged+3 }, ackWait, time.Millisecond)
	leader := func() string {
		c, err := a.Topology.readConsumer(t.Context())
		if err != nil || c.Cluster == nil {
			return ""
		}
		return c.Cluster.Leader
	}
	before := leader()
	_, err = a.Conn.nc.Request("$JS.API.CONSUMER.LEADER.STEPDOWN.ORDERS.workers", nil, requestTimeout)
	require.NoError(t, err)
	require.Eventually(t, func() bool { now := leader(); return now != "" && now != before }, time.Minute, 10*time.Millisecond)
	for began := time.Now(); ; { // b's server may not know yet whom to ask
		err := b.Pull(t.Context(), 1, ackWait/2, func(ds []*settle.Delivery) {
			require.False(t, d.Lease().Valid(), "two workers hold the intent: b has delivery %d", ds[0].Delivered)
		})
		if err == nil {
			break
		}
		require.Less(t, time.Since(began), time.Minute, "%v", err)
	}
	require.True(t, d.Lease().Valid())
	settleAs(t, a, d, report(order.Accepted, d.History))
}

// raftIndex returns up to which entry every server has applied the log of the Raft group.
func raftIndex(nodes []*server.Server, group string) uint64 {
	lowest := uint64(math.MaxUint64)
	for _, n := range nodes {
		groups := *n.Raftz(&server.RaftzOptions{AccountFilter: server.DEFAULT_GLOBAL_ACCOUNT, GroupFilter: group})
		lowest = min(lowest, groups[server.DEFAULT_GLOBAL_ACCOUNT][group].Applied)
	}
	return lowest
}

// What a worker that stops hands back comes again at once from its own broker, which stops with
// it and starts again: a worker of its own broker is restarted at every upgrade.
func TestWhatIsHandedBackOutlivesTheBroker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startBrokerIn(t, dir)
	q := openQueue(t, s, "w1")
	publish(t, q, intent("A-1", "i1"))
	got := brokerOf(t, q).Pull(1, time.Minute)
	require.Len(t, got, 1)
	naks, err := q.Conn.nc.SubscribeSync(server.JSAdvisoryConsumerMsgNakPre + ".>")
	require.NoError(t, err)
	require.NoError(t, got[0].Answer.Nak())
	_, err = naks.NextMsg(time.Minute) // the server works it off behind the connection's back
	require.NoError(t, err)
	q.Close()
	s.Stop()
	again := brokerOf(t, openQueue(t, startBrokerIn(t, dir), "w2")).Pull(1, DefaultConfig().AckWait/2)
	require.Len(t, again, 1)
	require.Equal(t, got[0].Seq, again[0].Seq)
	require.EqualValues(t, 2, again[0].Delivered)
}

// A cluster that has no leader yet drops requests and keeps the connection. A program that
// starts then asks again, and does not wait for the lost answer for as long as it has
// time.
func TestALostAnswerAtTheStartIsAskedForAgain(t *testing.T) {
	t.Parallel()
	s := startBroker(t)
	openQueue(t, s, "w1") // makes the streams
	for _, subject := range []string{"$JS.API.STREAM.INFO.ORDERS", "$JS.API.STREAM.INFO.ORDERS_DEAD", "$JS.API.STREAM.INFO.KV_ORDERPOST"} {
		t.Run(subject, func(t *testing.T) {
			var asked atomic.Int64
			lossy := &netcut.Dialer{Decide: func(to string, _ []byte) netcut.Cut {
				if to == subject && asked.Add(1) == 1 {
					return netcut.Lose
				}
				return netcut.Pass
			}}
			cfg := DefaultConfig()
			cfg.URL, cfg.Token, cfg.Missing = s.URL, s.Token, RefuseMissing
			cfg.ConnectTimeout, cfg.BrokerWait = 10*time.Minute, 20*time.Minute
			opened := make(chan error, 1)
			go func() {
				q, err := Open(t.Context(), cfg, zerolog.Nop(), nats.SetCustomDialer(lossy))
				if err == nil {
					q.Close()
				}
				opened <- err
			}()
			select {
			case err := <-opened:
				require.NoError(t, err)
				require.Greater(t, asked.Load(), int64(1))
			case <-time.After(time.Minute):
				t.Fatal("it waits for the lost answer")
			}
		})
	}
}
