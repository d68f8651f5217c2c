package fleet

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

func TestNamesOfWorkersBecomeKeys(t *testing.T) {
	for in, want := range map[string]string{"host-1.example:9": "host-1_example_9", "Größe *>": "Gr__e___", "a_B-9": "a_B-9"} {
		require.Equal(t, want, keyToken(in))
	}
}

// beats gives signs of life as a worker until stop is called.
func (n *node) beats(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		for n.Appear(ctx, Presence{ID: "1", Worker: n.name, Since: time.Now()}) == nil {
			_ = settle.Sleep(ctx, 50*time.Millisecond)
		}
	}()
	stop = func() { cancel(); <-over }
	t.Cleanup(stop)
	require.Eventually(t, func() bool { workers, err := n.Workers(t.Context()); return err == nil && len(workers) == 1 }, time.Minute, 5*time.Millisecond)
	return stop
}

// R7: leases count on the AckWait that the consumer has, whoever set it. A worker that relies on
// it gives signs of life while another one looks, whatever their clocks say; one that was killed a moment ago gives none.
func TestR7AckWaitIsTheFleets(t *testing.T) {
	s := startBroker(t)
	q := open(t, s, "a", func(c *queue.Config) { c.AckWait = 1200 * time.Millisecond })
	stop := q.beats(t)

	shorter := func(c *queue.Config) { c.AckWait = time.Second }
	_, err := tryOpen(t, s, "b", shorter)
	require.ErrorContains(t, err, "ORDERPOST_ACK_WAIT")
	producer, err := tryOpen(t, s, "b", func(c *queue.Config) { shorter(c); c.Worker = false })
	require.NoError(t, err)
	require.Equal(t, 1080*time.Millisecond, producer.Claims.Term(), "the deployed AckWait less the margin")

	stop()
	b, err := tryOpen(t, s, "b", shorter)
	require.NoError(t, err)
	require.Equal(t, 900*time.Millisecond, b.Claims.Term())
}

// TestAWorkerIsNoOtherOfItself: it looks for others while it runs itself.
func TestAWorkerIsNoOtherOfItself(t *testing.T) {
	s := startBroker(t)
	a, b := open(t, s, "a"), open(t, s, "b")
	a.beats(t)
	other, err := Living(t.Context(), a.Bucket(), "a")
	require.NoError(t, err)
	require.Empty(t, other)
	other, err = Living(t.Context(), b.Bucket(), "b")
	require.NoError(t, err)
	require.Equal(t, "a", other)
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
