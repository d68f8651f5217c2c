package queue

import (
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// hub is a server with JetStream that clients reach over another one, its leaf. Their
// connections outlive it.
type hub struct {
	t     *testing.T
	dir   string
	relay *relay
	leaf  *server.Server
	*server.Server
}

// sameDomain lets a leaf pass on what its clients ask of the hub's JetStream.
var sameDomain = map[string]string{"$G": ""}

func startHub(t *testing.T) *hub {
	h := &hub{t: t, dir: t.TempDir(), relay: startRelay(t)}
	h.start()
	h.leaf = runServer(t, &server.Options{ServerName: "leaf", JsAccDefaultDomain: sameDomain, LeafNode: server.LeafNodeOpts{
		ReconnectInterval: 20 * time.Millisecond,
		Remotes:           []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats-leaf", Host: h.relay.l.Addr().String()}}}},
	}})
	return h
}

func (h *hub) start() {
	o := &server.Options{ServerName: "hub", JetStream: true, StoreDir: h.dir, JsAccDefaultDomain: sameDomain,
		LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT}}
	h.Server = runServer(h.t, o)
	h.relay.lead("127.0.0.1:" + strconv.Itoa(o.LeafNode.Port))
	h.relay.set(false)
}

// cut ends the leaf's connection, so that the hub's last words reach nobody.
func (h *hub) cut() {
	h.relay.set(true)
	require.Eventually(h.t, func() bool { return h.leaf.NumLeafNodes() == 0 }, time.Minute, time.Millisecond)
}

// stop ends the hub. Like a server that is killed, it forgets what its consumer
// delivered.
func (h *hub) stop() {
	h.Shutdown()
	h.WaitForShutdown()
	require.NoError(h.t, os.Remove(filepath.Join(h.dir, "jetstream", "$G", "streams", "ORDERS", "obs", "workers", "o.dat")))
}

// open connects a worker to the leaf.
func (h *hub) open(name string) *Queue {
	cfg := DefaultConfig()
	cfg.URL, cfg.Name, cfg.Worker, cfg.Living = h.leaf.ClientURL(), name, true, living
	return openSoon(h.t, cfg, func() zerolog.Logger { return zerolog.Nop() }) // the leaf may not be connected yet
}

// R3: the server with the consumer is killed. The workers stay connected to another
// server, so only their pulls tell. What was delivered before comes back as a first
// delivery, and is in doubt.
func TestR3AServerThatIsKilledBehindAnotherForgetsNoDoubt(t *testing.T) {
	waiting := func(wait time.Duration, end func(*hub)) func(*hub, *Queue) error {
		return func(h *hub, q *Queue) error {
			ended := make(chan error, 1)
			go func() { ended <- q.Pull(t.Context(), 1, wait, func([]*settle.Delivery) {}) }()
			require.Eventually(t, func() bool {
				c, err := q.Topology.workersConsumer(t.Context())
				return err == nil && c.NumWaiting == 1
			}, time.Minute, time.Millisecond)
			end(h)
			h.stop()
			h.start()
			return <-ended
		}
	}
	for name, tc := range map[string]struct {
		own    bool // the worker that was given the order pulls again
		told   bool // a pull shows that the server went away
		killed func(h *hub, q *Queue) error
		want   string
	}{
		"no pull waits, and another worker pulls while the server is away": {told: true, killed: func(h *hub, q *Queue) error {
			h.cut()
			err := q.Pull(t.Context(), 1, time.Second, func([]*settle.Delivery) {})
			h.stop()
			h.start()
			return err
		}, want: nats.ErrNoResponders.Error()},
		"a pull of another worker waits, and the server says goodbye": {told: true, killed: waiting(time.Minute, func(*hub) {}), want: "Server Shutdown"},
		"a pull of another worker waits, and the server says nothing": {told: true, killed: waiting(5*time.Second, (*hub).cut)},
		"another worker does not pull meanwhile": {killed: func(h *hub, q *Queue) error {
			q.holder.lull = 0
			h.cut()
			h.stop()
			h.start()
			return nil
		}},
		"nobody pulls": {own: true, killed: func(h *hub, _ *Queue) error {
			h.cut()
			h.stop()
			h.start()
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHub(t)
			a, b := h.open("a"), h.open("b")
			require.NoError(t, b.Pull(t.Context(), 1, time.Millisecond, func([]*settle.Delivery) {}))
			b.holder.lull = time.Hour
			publish(t, a, intent("A-1", "i1"))
			require.False(t, pull(t, a, 1)[0].CountLost)
			publish(t, a, intent("A-2", "i2"))
			held := pull(t, b, 1)[0]
			id := b.Conn.nc.ConnectedServerId()
			next := b
			if tc.own {
				next = a
			}
			err := tc.killed(h, next)
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
			require.Eventually(t, func() bool { // the leaf is connected again
				_, err := next.Topology.workersConsumer(t.Context())
				return err == nil
			}, time.Minute, time.Millisecond)
			back := pull(t, next, 1)[0]
			require.EqualValues(t, 1, back.Delivered)
			require.Equal(t, id, b.Conn.nc.ConnectedServerId())
			require.True(t, back.CountLost)
			require.True(t, back.History.Unsure)
			require.Equal(t, tc.told, !next.Worker.ReconnectGraceUntil().IsZero(), "its former owner may still be posting it")
			require.Equal(t, tc.told, !held.Lease().Valid())
		})
	}
}

// With one replica in a cluster, an outage of one server stops everything. A worker that
// starts says so. Settings for three replicas raise those of all parts.
func TestReplicasAreRaisedAndOneIsWarnedOf(t *testing.T) {
	t.Parallel()
	nodes, _ := startCluster(t)
	start := func(replicas int) (*Queue, string) {
		cfg := DefaultConfig()
		cfg.URL, cfg.Name, cfg.Worker, cfg.Living, cfg.Replicas = nodes[0].ClientURL(), "a", true, living, replicas
		var log strings.Builder
		q := openSoon(t, cfg, func() zerolog.Logger { log.Reset(); return zerolog.New(&log) })
		return q, log.String()
	}
	_, log := start(1)
	require.Equal(t, 1, strings.Count(log, "these streams have one replica"), log)
	require.Contains(t, log, `"streams":"ORDERS, ORDERS_RESULTS"`)
	q, log := start(3)
	require.NotContains(t, log, "one replica")
	for _, name := range []string{"ORDERS", "ORDERS_RESULTS", "ORDERS_DEAD", "ORDERS_JOURNAL", "KV_ORDERPOST"} {
		s, err := q.reader.info(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, 3, s.Config.Replicas, name)
	}
	q, log = start(1) // another worker that has the default
	require.NotContains(t, log, "one replica")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		consumer, err := q.Topology.workersConsumer(t.Context())
		require.NoError(c, err)
		require.Equal(c, 3, consumer.Config.Replicas)
		require.NotNil(c, consumer.Cluster, "nobody leads it yet")
		require.Len(c, consumer.Cluster.Replicas, 2)
	}, time.Minute, 20*time.Millisecond)
}

// A lone server has one replica, and no cluster.
func TestALoneServerIsNotWarnedOf(t *testing.T) {
	s := startBroker(t)
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Living = s.URL, s.Token, "a", true, living
	var log strings.Builder
	q, err := Open(t.Context(), cfg, zerolog.New(&log))
	require.NoError(t, err)
	t.Cleanup(q.Close)
	require.NotContains(t, log.String(), "replica")
	require.False(t, q.holder.remote, "the connection breaks with the server")
}

// Two servers with a JetStream each, which a leaf node joins in one account, store each other's
// messages: the workers of both would post each order. So no worker makes streams there.
func TestNoStreamsAreMadeBesideThoseOfAnotherJetStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hub, leaf string // domains
		leafFirst bool
	}{"the leaf node is later": {hub: "hub", leaf: "leaf"}, "the hub is later": {hub: "hub", leaf: "leaf", leafFirst: true}, "without domains": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := &server.Options{ServerName: "hub", JetStream: true, JetStreamDomain: c.hub, StoreDir: t.TempDir(), LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT}}
			first := runServer(t, at)
			second := runServer(t, &server.Options{ServerName: "leaf", JetStream: true, JetStreamDomain: c.leaf, StoreDir: t.TempDir(), LeafNode: server.LeafNodeOpts{
				Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats-leaf", Host: "127.0.0.1:" + strconv.Itoa(at.LeafNode.Port)}}}}}})
			if c.leafFirst {
				first, second = second, first
			}
			open := func(s *server.Server, prefix string) error {
				cfg := DefaultConfig()
				cfg.URL, cfg.Name, cfg.Worker, cfg.Living, cfg.Prefix = s.ClientURL(), "a", true, living, prefix
				q, err := Open(t.Context(), cfg, zerolog.Nop())
				if err == nil {
					t.Cleanup(q.Close)
				}
				return err
			}
			require.NoError(t, open(first, ""))
			require.Eventually(t, func() bool { return second.GlobalAccount().SubscriptionInterest("orders.new.A-1") }, time.Minute, time.Millisecond)
			err := open(second, "")
			require.ErrorContains(t, err, "stream ORDERS cannot be made")
			require.ErrorContains(t, err, "another JetStream stores what is sent to orders.new.")
			js, err := second.Jsz(nil)
			require.NoError(t, err)
			require.Zero(t, js.Streams)
			require.NoError(t, open(second, "other"))
			require.NoError(t, open(first, ""), "a worker starts again where the streams are")
		})
	}
}
