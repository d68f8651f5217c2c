package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

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
