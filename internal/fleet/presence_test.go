package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
)

func TestNamesOfWorkersBecomeKeys(t *testing.T) {
	for in, want := range map[string]string{"host-1.example:9": "host-1_example_9", "Größe *>": "Gr__e___", "a_B-9": "a_B-9"} {
		require.Equal(t, want, keyToken(in))
	}
}

// R7: leases count on the AckWait that the consumer has, whoever set it.
func TestR7AckWaitIsTheFleets(t *testing.T) {
	s := startBroker(t)
	q := open(t, s, "a", func(c *queue.Config) { c.AckWait = 1200 * time.Millisecond })
	require.NoError(t, q.Appear(t.Context(), Presence{ID: "1", Worker: "a", Since: time.Now()}))
	require.Eventually(t, func() bool {
		workers, err := q.Workers(t.Context())
		return err == nil && len(workers) == 1
	}, time.Minute, 5*time.Millisecond)

	shorter := func(c *queue.Config) { c.AckWait = time.Second }
	_, err := tryOpen(t, s, "b", shorter)
	require.ErrorContains(t, err, "ORDERPOST_ACK_WAIT")
	producer, err := tryOpen(t, s, "b", func(c *queue.Config) { shorter(c); c.Worker = false })
	require.NoError(t, err)
	require.Equal(t, 1080*time.Millisecond, producer.Claims.Term(), "the deployed AckWait less the margin")

	require.NoError(t, q.Remove(t.Context(), Presence{Worker: "a", ID: "1"}))
	b, err := tryOpen(t, s, "b", shorter)
	require.NoError(t, err)
	require.Equal(t, 900*time.Millisecond, b.Claims.Term())
}

// TestAWorkerThatLeftIsNotCounted, also where the broker was killed and knows its last entry
// again.
func TestAWorkerThatLeftIsNotCounted(t *testing.T) {
	q := open(t, startBroker(t), "a")
	a, b := Presence{ID: "1", Worker: "a", Since: time.Now()}, Presence{ID: "2", Worker: "b", Since: time.Now()}
	require.NoError(t, q.Appear(t.Context(), a))
	require.NoError(t, q.Appear(t.Context(), b))
	require.NoError(t, q.Remove(t.Context(), a))
	a.Left = true
	require.NoError(t, q.Appear(t.Context(), a)) // as Remove leaves it for a broker that forgets the rest
	workers, err := q.Workers(t.Context())
	require.NoError(t, err)
	require.Len(t, workers, 1)
	view, err := q.Read(t.Context())
	require.NoError(t, err)
	require.Len(t, view.Members, 1)
	require.Empty(t, view.Absent())
}
