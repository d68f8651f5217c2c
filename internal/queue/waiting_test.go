package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// fillRoom puts n orders of an import into the waiting room and returns their subject.
func fillRoom(t *testing.T, q *Queue, batch string, n int) string {
	t.Helper()
	in := make([]settle.Intent, n)
	for i := range in {
		in[i] = intent(fmt.Sprint(batch, "-", i), fmt.Sprint(batch, ":", i))
		in[i].Lane, in[i].Batch = order.BulkLane, batch
	}
	publish(t, q, in...)
	return q.Conn.n.waitPre + order.BulkLane + "." + batch
}

func requireWaiting(t *testing.T, q *Queue, n uint64) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		have, err := q.Waiting.Total(t.Context())
		require.NoError(c, err)
		require.Equal(c, n, have)
	}, time.Minute, 5*time.Millisecond)
}

// A page shows what waits under a subject, or under all that match, and counts the rest.
func TestAPageOfTheWaitingRoom(t *testing.T) {
	q := openQueue(t, startBroker(t), "w1")
	march := fillRoom(t, q, "march", 6)
	fillRoom(t, q, "april", 2)
	fillRoom(t, q, "march-2", 2)
	page, left, err := q.Waiting.Page(t.Context(), march, 0, 4)
	require.NoError(t, err)
	require.Len(t, page, 4)
	require.Equal(t, 2, left)
	for i, m := range page {
		require.Equal(t, fmt.Sprint("march-", i), settle.WaitingOrderNo(m))
		require.Equal(t, march, m.Subject)
		require.False(t, m.Time.IsZero())
	}
	page, left, err = q.Waiting.Page(t.Context(), march, page[3].Seq+1, 10)
	require.NoError(t, err)
	require.Len(t, page, 2)
	require.Zero(t, left)
	require.Equal(t, "march-4", settle.WaitingOrderNo(page[0]))
	page, left, err = q.Waiting.Page(t.Context(), q.Conn.n.waitPre+"*.*", 0, 9)
	require.NoError(t, err)
	require.Len(t, page, 9, "of all imports")
	require.Equal(t, 1, left)
}

// In a cluster: what a page shows and says to come is what the leader counts, once replicas
// have caught up, also after a node is lost.
func TestPagesOfAClusterAreCounted(t *testing.T) {
	t.Parallel()
	nodes, _ := startCluster(t)
	q := openCluster(t, nodes, "w1")
	march := fillRoom(t, q, "march", 300)
	fillRoom(t, q, "april", 50)
	seen, next := 0, uint64(0)
	for seen < 300 {
		page, left, err := q.Waiting.Page(t.Context(), march, next, 20)
		if err != nil || len(page) == 0 { // a leader is chosen, or a follower lags
			continue
		}
		n, err := q.Waiting.Under(t.Context(), march)
		require.NoError(t, err)
		if n != len(page)+left { // a follower lags
			continue
		}
		for _, m := range page {
			require.Equal(t, fmt.Sprint("march-", seen), settle.WaitingOrderNo(m))
			seen++
		}
		next = page[len(page)-1].Seq + 1
		require.NoError(t, q.store.PurgeWaiting(t.Context(), march, next-1))
		if seen == 100 {
			nodes[2].Shutdown()
			nodes[2].WaitForShutdown()
		}
	}
	requireWaiting(t, q, 50)
}

// R13: no condition of a publish keeps a feeder that was frozen from storing a settled
// intent again. The broker answers for a subject whose message is gone as for one that
// never had any. If that changes, docs/protocol.md can close the gap.
func TestR13AWorkQueueForgetsTheSubjectsOfSettledIntents(t *testing.T) {
	q := openQueue(t, startBroker(t), "a")
	conditional := func(id string, opts ...jetstream.PublishOpt) error {
		m := natsMsg(q.Producer.IntentMessage(intent("A-1", id)))
		m.Header.Del(nats.MsgIdHdr)
		_, err := q.Conn.js.PublishMsg(t.Context(), m, opts...)
		return err
	}
	none := jetstream.WithExpectLastSequencePerSubject(0)
	require.NoError(t, conditional("i1", none))
	require.ErrorContains(t, conditional("i1", none), "wrong last sequence", "pending")

	d := pull(t, q, 1)[0]
	settleAs(t, q, d, report(order.Accepted, d.History))
	requireDrained(t, q)
	require.NoError(t, conditional("i1", none), "settled")
}

// The oldest order in any lane is seen, however small the lane is and however many there
// are.
func TestTheOldestOfManyLanesIsSeen(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]int{"it is among the oldest of all": 0, "it is behind many others": pageSize + 1} {
		t.Run(name, func(t *testing.T) {
			q := openQueue(t, startBroker(t), "w1")
			if first > 0 {
				fillRoom(t, q, "march", first)
			}
			put := func(lane string, n int) {
				in := make([]settle.Intent, n)
				for i := range in {
					no := fmt.Sprint(lane, "-", i)
					in[i] = intent(no, no)
					in[i].Lane = lane
				}
				publish(t, q, in...)
			}
			put("small", 1)
			oldest, _, err := q.Waiting.Page(t.Context(), q.Conn.n.waitPre+"small.*", 0, 1)
			require.NoError(t, err)
			for i := range mostLanes + 5 {
				put(fmt.Sprint("lane-", i), 2)
			}
			list, err := q.Waiting.All(t.Context())
			require.NoError(t, err)
			lanes, err := q.Waiting.LanesOf(t.Context(), list, time.Now(), func(string) bool { return false })
			require.NoError(t, err)
			require.Equal(t, OtherLanes, lanes[0].Name)
			require.Equal(t, oldest[0].Time, lanes[0].Oldest)
			lanes, err = q.Waiting.LanesOf(t.Context(), nil, time.Now(), nil)
			require.NoError(t, err)
			require.Empty(t, lanes)
		})
	}
}
