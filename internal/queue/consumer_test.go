package queue

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// A consumer that would pass over intents is none to work with.
func TestAConsumerThatPassesOverIntentsIsRefused(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	require.NoError(t, q.Conn.js.DeleteConsumer(t.Context(), "ORDERS", "workers"))
	odd := q.Topology.consumerConfig()
	odd.FilterSubject = "orders.new.A"
	_, err := q.Conn.js.CreateConsumer(t.Context(), "ORDERS", odd)
	require.NoError(t, err)
	cfg := q.Conn.cfg
	_, err = Open(t.Context(), cfg, zerolog.Nop())
	require.ErrorContains(t, err, "consumer workers of stream ORDERS: it has the filter orders.new.A, wanted none")
	require.NoError(t, q.Conn.js.DeleteConsumer(t.Context(), "ORDERS", "workers"))
	again, err := Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	again.Close()
	_, err = q.Conn.js.Consumer(t.Context(), "ORDERS", "workers")
	require.NoError(t, err)
}

// TestAConsumerOfHeadersOnlyCostsNoBody: an order whose body the broker leaves out must not end as invalid.
// A worker that starts sets the consumer right.
func TestAConsumerOfHeadersOnlyCostsNoBody(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	in, empty := intent("A-1", "i1"), intent("A-2", "i2")
	empty.Body = nil
	publish(t, q, in)
	publish(t, q, empty)
	changed := q.Topology.consumerConfig()
	changed.HeadersOnly, changed.MaxDeliver = true, 3
	_, err := q.Conn.js.UpdateConsumer(t.Context(), "ORDERS", changed)
	require.NoError(t, err)
	bodies := make(map[string]string)
	for _, d := range pull(t, q, 2) {
		bodies[d.OrderNo()] = string(d.Intent.Body)
		d.Release()
	}
	require.Equal(t, map[string]string{"A-1": string(in.Body), "A-2": ""}, bodies)

	again, err := Open(t.Context(), q.Conn.cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(again.Close)
	c, err := q.Conn.js.Consumer(t.Context(), "ORDERS", "workers")
	require.NoError(t, err)
	require.False(t, c.CachedInfo().Config.HeadersOnly)
	require.Equal(t, -1, c.CachedInfo().Config.MaxDeliver)
}

// The states that users of nats-server reported as consumers that stop delivering, with the
// streams and the consumer that workers make.

// publishF publishes n intents.
func publishF(t *testing.T, q *Queue, n int) {
	t.Helper()
	var in []settle.Intent
	for i := range n {
		in = append(in, intent(fmt.Sprint("F-", i), fmt.Sprint("i", i)))
	}
	publish(t, q, in...)
}

// requireAllAccepted lets a worker settle what comes until n orders are accepted, each posted
// once after its record, and nothing waits or is delivered to nobody.
func requireAllAccepted(t *testing.T, q *Queue, n int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var p posts
	var work sync.WaitGroup
	work.Go(func() { p.workOff(ctx, q) })
	require.Eventually(t, func() bool {
		c, err := q.Census.Count(t.Context())
		return err == nil && c.Results == uint64(n) && c.Pending == 0
	}, time.Minute, 10*time.Millisecond)
	requireDrained(t, q)
	stop()
	work.Wait()
	require.False(t, q.Trimmer.Strands())
	require.Empty(t, p.again)
	for i := range n {
		require.Equal(t, order.OutcomeAccepted, lookup(t, q, fmt.Sprint("F-", i)).Outcome())
	}
}

// forget writes the state of the workers' consumer into the store of a broker that is
// stopped: delivered up to a sequence, acknowledged up to another one, and nobody holds what
// lies between.
func forget(t *testing.T, dir string, acked, delivered uint64) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", "*", "streams", "ORDERS", "obs", "workers", "o.dat"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	state := []byte{22, 2} // nats-server's magic number and the version of the format
	for _, n := range []uint64{acked, acked, delivered, delivered, 0, 0} {
		state = binary.AppendUvarint(state, n)
	}
	require.NoError(t, os.WriteFile(found[0], state, 0o600))
}

// nats-server #4736, #6290: after a restart, a consumer counts messages as delivered that nobody
// holds, and delivers them no more. New ones go on, and the floor passes over the others. They
// are not removed as if they were settled, they are named, and repair brings them back.
func TestR14WhatABrokerForgotIsToldAndComesAgain(t *testing.T) {
	t.Parallel()
	for name, newOnes := range map[string]int{"new ones go on": 4, "nothing new comes": 0} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := startBrokerIn(t, dir)
			q := openQueue(t, s, "a")
			publishF(t, q, 6)
			for _, d := range pull(t, q, 6)[:2] {
				settleAs(t, q, d, report(order.Accepted, d.History))
			}
			floor := func(want uint64) {
				t.Helper()
				require.Eventually(t, func() bool {
					at, err := q.AckFloor(t.Context())
					return err == nil && at == want
				}, time.Minute, time.Millisecond)
			}
			floor(2)
			q.Close()
			s.Stop()
			forget(t, dir, 2, 6)

			q = openQueue(t, startBrokerIn(t, dir), "b")
			require.NoError(t, q.Trimmer.Trim(t.Context())) // before the floor passes over them
			if newOnes > 0 {
				for i := range newOnes {
					publish(t, q, intent(fmt.Sprint("F-", 6+i), fmt.Sprint("i", 6+i)))
				}
				for _, d := range pull(t, q, newOnes) {
					settleAs(t, q, d, report(order.Accepted, d.History))
				}
				floor(uint64(6 + newOnes))
			}
			for range 3 {
				require.NoError(t, q.Trimmer.Trim(t.Context()))
			}
			require.True(t, q.Trimmer.Strands())
			m, err := q.Trimmer.FirstStranded(t.Context())
			require.NoError(t, err)
			require.Equal(t, "orders.new.F-2", m.Subject)
			requireStored(t, q, 4+newOnes)

			require.NoError(t, q.Topology.RemoveConsumer(t.Context())) // worker repair
			q, err = reopen(t, q, func(c *Config) { c.Name = "c" })
			require.NoError(t, err)
			requireAllAccepted(t, q, 6+newOnes)
		})
	}
}

// nats-server #7680: all that a consumer may hand out is held, the limit is raised, and the
// workers start again. What was held comes when its ack wait is over, and the rest at once.
func TestWhatWaitedBehindALimitComesWhenItIsRaised(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"the broker runs on": false, "the broker is restarted": true} {
		t.Run(name, func(t *testing.T) {
			const most, n = 5, 12
			dir := t.TempDir()
			s := startBrokerIn(t, dir)
			short := func(c *Config) { c.AckWait = 2 * time.Second }
			q := openQueue(t, s, "a", short)
			low := q.Topology.consumerConfig()
			low.MaxAckPending = most
			_, err := q.Conn.js.UpdateConsumer(t.Context(), q.Conn.n.intents, low)
			require.NoError(t, err)
			publishF(t, q, n)
			held := pull(t, q, most)
			require.NoError(t, q.Pull(t.Context(), 1, 100*time.Millisecond, func([]*settle.Delivery) { t.Error("above the limit") }))
			for _, d := range held { // its worker is killed
				d.Release()
			}
			q.Close()
			if restart {
				s.Stop()
				s = startBrokerIn(t, dir)
			}
			q = openQueue(t, s, "b", short)
			consumer, err := q.Topology.workersConsumer(t.Context())
			require.NoError(t, err)
			require.Equal(t, MaxAckPending, consumer.Config.MaxAckPending)
			requireAllAccepted(t, q, n)
		})
	}
}

// nats-server #5799: on three servers, messages are dropped, or come exactly one ack wait late.
// What a worker was given that is gone comes after an ack wait, also if the consumer's leader
// changes meanwhile. The rest comes at once, and nothing is dropped.
func TestWhatAWorkerThatIsGoneWasGivenComesAgain(t *testing.T) {
	t.Parallel()
	const lost, n = 5, 12
	nodes, _ := startCluster(t)
	q := openCluster(t, nodes, "a")
	publishF(t, q, n)
	gone, err := nats.Connect(nodes[1].ClientURL(), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(gone.Close)
	nobody, err := gone.SubscribeSync(gone.NewInbox())
	require.NoError(t, err)
	given := make(map[string]bool)
	require.Eventually(t, func() bool { // its server may not know yet whom to ask
		ask := fmt.Appendf(nil, `{"batch":1,"expires":%d}`, requestTimeout)
		require.NoError(t, gone.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.ORDERS.workers", nobody.Subject, ask))
		if m, err := nobody.NextMsg(requestTimeout); err == nil && m.Header.Get(nats.MsgIdHdr) != "" {
			given[m.Subject] = true
		}
		return len(given) == lost
	}, time.Minute, time.Millisecond)
	leader := func() string {
		c, err := q.Topology.readConsumer(t.Context())
		if err != nil || c.Cluster == nil {
			return ""
		}
		return c.Cluster.Leader
	}
	before := leader()
	_, err = q.Conn.nc.Request("$JS.API.CONSUMER.LEADER.STEPDOWN.ORDERS.workers", nil, requestTimeout)
	require.NoError(t, err)
	require.Eventually(t, func() bool { now := leader(); return now != "" && now != before }, time.Minute, 10*time.Millisecond)
	requireAllAccepted(t, q, n)
}
