package settle_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// stored is how many intents the log holds.
func stored(t *testing.T, q *queue.Queue) int {
	t.Helper()
	room, err := q.Census.Room(t.Context())
	require.NoError(t, err)
	return int(room.Msgs)
}

// pulled publishes n intents and pulls the first of them.
func pulled(t *testing.T, q *queue.Queue, n, first int) []*settle.Delivery {
	t.Helper()
	var in []settle.Intent
	for i := range n {
		no := fmt.Sprintf("A-%d", i)
		in = append(in, intent(no, "i:"+no))
	}
	publish(t, q, in...)
	return pull(t, q, first)
}

// settleAll settles deliveries and waits until the floor is at a sequence.
func settleAll(t *testing.T, q *queue.Queue, ds []*settle.Delivery, floor uint64) {
	t.Helper()
	for _, d := range ds {
		settleAs(t, q, d, report(order.Accepted, d.History))
	}
	require.Eventually(t, func() bool {
		at, err := q.AckFloor(t.Context())
		return err == nil && at == floor
	}, time.Minute, time.Millisecond)
}

// A purge would make the broker forget what was given back until its ack wait is over.
func TestR14ATrimHoldsUpNothingThatIsToComeAgain(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1", func(c *queue.Config) { c.AckWait = 10 * time.Minute })
	ds := pulled(t, q, 20, 20)
	settled, back := ds[:10], ds[10:]
	for _, d := range back {
		require.NoError(t, q.Worker.HandBack(t.Context(), d, 0))
		d.Release()
	}
	settleAll(t, q, settled, 10)
	for range 3 {
		require.NoError(t, q.Trimmer.Trim(t.Context()))
	}
	settleAll(t, q, pull(t, q, len(back)), 20)
	requireDrained(t, q)
}

// Few intents are removed by their sequences, which holds up nothing.
func TestR14FewIntentsLeaveWithoutAPurge(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1", func(c *queue.Config) { c.AckWait = 10 * time.Minute })
	ds := pulled(t, q, 8, 8)
	for _, d := range ds[4:] {
		require.NoError(t, q.Worker.HandBack(t.Context(), d, 0))
		d.Release()
	}
	settleAll(t, q, ds[:4], 4)
	require.NoError(t, q.Trimmer.Trim(t.Context()))
	require.Equal(t, 4, stored(t, q))
	settleAll(t, q, pull(t, q, 4), 8)
	requireDrained(t, q)
}

// While all workers are busy, the log is trimmed if they are given new intents.
func TestR14TheLogIsTrimmedWhileAllWorkersAreBusy(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1", func(c *queue.Config) { c.AckWait = 10 * time.Minute })
	const all = 200
	ds := pulled(t, q, all, 11)
	settleAll(t, q, ds[:10], 10)
	require.NoError(t, q.Trimmer.Trim(t.Context()))
	require.Equal(t, all, stored(t, q), "one is in hand, and might have been given back")
	for n := 11; n < all && stored(t, q) == all; n++ { // a slow machine needs several, because the looks must be close
		require.NoError(t, q.Trimmer.Trim(t.Context()))
		pull(t, q, 1)
		require.NoError(t, q.Trimmer.Trim(t.Context()))
	}
	require.Equal(t, all-10, stored(t, q))
}
