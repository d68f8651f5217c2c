package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// fillRoom puts n orders of an import into the waiting room and returns their subject.
func fillRoom(t *testing.T, q *Queue, batch string, n int) string {
	t.Helper()
	require.NoError(t, q.OpenWaiting(t.Context()))
	in := make([]settle.Intent, n)
	for i := range in {
		in[i] = intent(fmt.Sprint(batch, "-", i), fmt.Sprint(batch, ":", i))
		in[i].Lane, in[i].Batch = order.BulkLane, batch
	}
	publish(t, q, in...)
	return q.n.waitPre + order.BulkLane + "." + batch
}

func pullRoom(t *testing.T, q *Queue, subject string, n int) []settle.Arrival {
	t.Helper()
	got, err := q.PullWaiting(t.Context(), subject, n)
	require.NoError(t, err)
	return got
}

func requireWaiting(t *testing.T, q *Queue, n uint64) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		have, err := q.WaitingTotal(t.Context())
		require.NoError(c, err)
		require.Equal(c, n, have)
	}, time.Minute, 5*time.Millisecond)
}

// Each import has a consumer of its own, and what it hands out leaves the waiting room
// by its acknowledgement alone.
func TestEachImportIsPulledByItself(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	march, april := fillRoom(t, q, "march", 6), fillRoom(t, q, "april", 2)
	got := pullRoom(t, q, march, 4)
	require.Len(t, got, 4)
	for i, m := range got {
		require.Equal(t, fmt.Sprint("march-", i), settle.WaitingOrderNo(m.Message))
		require.EqualValues(t, 1, m.Delivered)
		require.Equal(t, march, m.Subject)
		require.False(t, m.Time.IsZero())
	}
	require.Len(t, pullRoom(t, q, april, 10), 2)
	require.Len(t, pullRoom(t, q, march, 10), 2, "what is in hand is not handed out")
	require.Empty(t, pullRoom(t, q, march, 10))
	require.NoError(t, got[1].Answer.Ack())
	requireWaiting(t, q, 7)
	require.NoError(t, got[0].Answer.NakWithDelay(0))
	require.Eventually(t, func() bool {
		again := pullRoom(t, q, march, 10)
		return len(again) == 1 && again[0].Seq == got[0].Seq && again[0].Delivered == 2
	}, time.Minute, 5*time.Millisecond)
}

// A consumer may end at any time: by its idleness, by a restart of the broker, by a
// person. What was handed out and not acknowledged is handed out again, and an
// acknowledgement from before is either heard or not.
func TestNothingIsLostWithAFeedersConsumer(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	march := fillRoom(t, q, "march", 5)
	got := pullRoom(t, q, march, 3)
	q.EndPulls(march)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := q.js.Consumer(t.Context(), q.n.waiting, q.feedConsumer(march).Name)
		require.ErrorIs(c, err, jetstream.ErrConsumerNotFound)
	}, time.Minute, 5*time.Millisecond)
	requireWaiting(t, q, 5)
	require.NoError(t, got[0].Answer.Ack())
	again := pullRoom(t, q, march, 10)
	require.Len(t, again, 5, "the consumer of that acknowledgement is gone")
	require.NoError(t, got[1].Answer.Ack())
	requireWaiting(t, q, 4)
	require.Equal(t, again[1].Seq, got[1].Seq)
}

// A cancellation deletes what a feeder has in hand. The feeder's answers then change
// nothing.
func TestWhatIsDeletedInAFeedersHandsIsGone(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	march := fillRoom(t, q, "march", 3)
	got := pullRoom(t, q, march, 2)
	require.NoError(t, q.store.DeleteWaiting(t.Context(), got[0].Seq))
	require.NoError(t, q.store.DeleteWaiting(t.Context(), got[1].Seq))
	require.NoError(t, got[0].Answer.Ack())
	require.NoError(t, got[1].Answer.NakWithDelay(0))
	requireWaiting(t, q, 1)
	left := pullRoom(t, q, march, 10)
	require.Len(t, left, 1)
	require.EqualValues(t, 3, left[0].Seq)
	require.NoError(t, left[0].Answer.Ack())
	requireWaiting(t, q, 0)
	require.Len(t, pullRoom(t, q, fillRoom(t, q, "march-2", 1), 10), 1)
}

// Somebody else's consumer is in the way.
func TestAForeignConsumerLeavesTheReading(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	march := fillRoom(t, q, "march", 3)
	_, err := q.js.CreateConsumer(t.Context(), q.n.waiting, jetstream.ConsumerConfig{Name: "somebody", AckPolicy: jetstream.AckExplicitPolicy})
	require.NoError(t, err)
	_, err = q.PullWaiting(t.Context(), march, 3)
	require.ErrorIs(t, err, ErrNoPulls)
	require.ErrorContains(t, err, march)
	page, err := q.WaitingPage(t.Context(), march, 0, 3)
	require.NoError(t, err)
	require.Len(t, page, 3)
}

// In a cluster: a node is lost while a feeder pulls.
func TestWhatWaitsInAClusterIsPulled(t *testing.T) {
	nodes, _ := startCluster(t)
	q := openCluster(t, nodes, "w1")
	march := fillRoom(t, q, "march", 300)
	seen := make(map[uint64]bool)
	pullUntil := func(n int) { // a consumer that was just made, or lost its leader, answers nothing for a while
		require.Eventually(t, func() bool {
			got, err := q.PullWaiting(t.Context(), march, 50)
			for _, m := range got {
				seen[m.Seq] = true
				_ = m.Answer.Ack()
			}
			return err == nil && len(seen) >= n
		}, time.Minute, 20*time.Millisecond)
	}
	pullUntil(100)
	requireWaiting(t, q, 300-uint64(len(seen)))
	info, err := q.js.Consumer(t.Context(), q.n.waiting, q.feedConsumer(march).Name)
	require.NoError(t, err)
	for _, s := range nodes {
		if s.Name() == info.CachedInfo().Cluster.Leader {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}
	pullUntil(300)
	requireWaiting(t, q, 0)
}
