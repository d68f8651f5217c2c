package queue

import (
	"fmt"
	"testing"
	"time"

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
