package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/settle"
)

// TestAnInterruptedImportStoresNothingLater: whoever stops an import and cancels it covers all
// that it stored. So once PublishMany has returned, nothing of it is still on its way.
func TestAnInterruptedImportStoresNothingLater(t *testing.T) {
	t.Parallel()
	s := startBroker(t)
	importing, person := openQueue(t, s, "importing"), openQueue(t, s, "person")
	interrupted := 0
	for round := range 60 {
		in := make([]settle.Intent, 300)
		for i := range in {
			no := fmt.Sprintf("I-%d-%d", round, i)
			in[i] = intent(no, no)
		}
		if round%2 == 1 { // the broker refuses the batch, so they go one by one
			in[299] = intent(fmt.Sprintf("I-%d-0", round-1), "another")
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(rand.IntN(8000))*time.Microsecond, cancel)
		for _, r := range importing.PublishMany(ctx, in) {
			if r.Err != nil {
				interrupted++
			}
		}
		cancel()
		c, err := person.Census.Count(t.Context())
		require.NoError(t, err)
		publish(t, person, intent(fmt.Sprintf("S-%d", round), ""))
		after, err := person.Census.Count(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.LastIntent+1, after.LastIntent, "round %d: stored after the import had ended", round)
	}
	require.Positive(t, interrupted)
}
