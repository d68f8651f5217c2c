package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// TestAPauseHoldsWhenItIsConfirmed: a cluster answers before the consumer's leader
// pauses. What that one delivers meanwhile would be cancelled and posted.
func TestAPauseHoldsWhenItIsConfirmed(t *testing.T) {
	t.Parallel()
	nodes, _ := startCluster(t)
	q := openCluster(t, nodes, "a")
	s := jetStore{q}
	in := make([]settle.Intent, 500)
	for i := range in {
		in[i] = intent(fmt.Sprint("P-", i), fmt.Sprint("i", i))
	}
	publish(t, q, in...)
	for range 20 {
		pulled := make(chan error, 1)
		go func() {
			pulled <- q.Pull(t.Context(), 20, 200*time.Millisecond, func(ds []*settle.Delivery) {
				for _, d := range ds {
					d.Release()
				}
			})
		}()
		end := time.Now().Add(time.Minute)
		require.NoError(t, s.Pause(t.Context(), end))
		until, err := s.PausedUntil(t.Context())
		require.NoError(t, err)
		require.True(t, until.Equal(end), "the consumer's leader pauses until %s", until)
		before, err := s.Delivered(t.Context())
		require.NoError(t, err)
		require.NoError(t, <-pulled)
		after, err := s.Delivered(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, after, "delivered during the pause")
		require.NoError(t, s.Pause(t.Context(), time.Now()))
	}
}
