package door

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
)

// waiting has requests of the door wait for the broker.
func waiting(wait time.Duration) func(*queue.Config) {
	return func(c *queue.Config) { c.BrokerWait = wait }
}

// TestWhatIsAskedInAnOutage: a wait goes on until the broker is back, and an error tells nothing of
// what was stored before.
func TestWhatIsAskedInAnOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t, waiting(time.Millisecond))
	r.submit(one("A", "s1"), Stored)
	r.answer(1, order.Accepted)
	_, err := r.Wait(t.Context(), "A", "s1") // what follows the results is up
	require.NoError(t, err)
	r.broker.Stop()
	require.Eventually(t, func() bool { _, err = r.Outcome(t.Context(), "A", "s1"); return err != nil }, waitLong, waitShort)
	require.ErrorIs(t, err, ErrUnavailable)
	require.NotContains(t, err.Error(), "nothing was stored")
	_, err = r.Submit(t.Context(), Order{Body: body("B", "1"), ID: "s2"})
	require.ErrorContains(t, err, "nothing was stored")
	short, cancel := context.WithTimeout(t.Context(), 3*longestLook)
	defer cancel()
	_, err = r.Wait(short, "A", "s1")
	require.ErrorIs(t, err, context.DeadlineExceeded, "it does not give up before")
	r.broker.Restart(t)
	o, err := r.Wait(t.Context(), "A", "s1")
	require.NoError(t, err)
	require.Equal(t, order.OutcomeAccepted, o.Outcome)
}

// TestAnIDIsCheckedAfterALongOutage: the look at what is stored fails once the broker is away for
// as long as a request waits. The submission goes on, and another body does not go through
// under the id of one that is settled.
func TestAnIDIsCheckedAfterALongOutage(t *testing.T) {
	t.Parallel()
	r := newRig(t, waiting(3*time.Second))
	r.submit(one("A", "s1"), Stored)
	r.answer(1, order.Rejected)
	require.Eventually(t, func() bool { // else the broker would remember the id
		state, err := r.worker.Intents().State(t.Context())
		return r.worker.Trimmer.Trim(t.Context()) == nil && err == nil && state.Messages == 0
	}, waitLong, waitShort)

	r.broker.Stop()
	got := make(chan error, 1)
	go func() {
		_, err := r.Submit(t.Context(), Order{Body: body("A", "2"), ID: "s1"})
		got <- err
	}()
	for _, looks := range []bool{true, false} {
		require.Eventually(t, func() bool {
			r.checks.mu.Lock()
			defer r.checks.mu.Unlock()
			return r.checks.busy == looks
		}, waitLong, waitShort)
	}
	r.broker.Restart(t)
	require.ErrorIs(t, <-got, ErrIDUsed)
}
