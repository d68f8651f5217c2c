package door

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
)

// newRestartRig is newRig with a broker that a test stops, and starts again at the same address.
// Requests of the door wait for it as long as wait says.
func newRestartRig(t *testing.T, wait time.Duration) (r *rig, restart func()) {
	t.Helper()
	var cfg embedded.Config
	s := startBroker(t, func(c *embedded.Config) { cfg = *c })
	cfg.Listen = strings.TrimPrefix(s.URL, "nats://")
	r = &rig{t: t, broker: s, worker: connect(t, s, asWorker)}
	r.Door = New(connect(t, s, func(c *queue.Config) { c.BrokerWait = wait }), nil)
	t.Cleanup(r.Door.Close)
	return r, func() {
		t.Helper()
		again, err := embedded.Start(cfg)
		require.NoError(t, err)
		r.broker = again
		t.Cleanup(again.Stop)
	}
}

// TestWhatIsAskedInAnOutage: a wait goes on until the broker is back, and an error tells nothing of
// what was stored before.
func TestWhatIsAskedInAnOutage(t *testing.T) {
	t.Parallel()
	r, restart := newRestartRig(t, time.Millisecond)
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
	restart()
	o, err := r.Wait(t.Context(), "A", "s1")
	require.NoError(t, err)
	require.Equal(t, order.OutcomeAccepted, o.Outcome)
}

// TestAnIDIsCheckedAfterALongOutage: the look at what is stored fails once the broker is away for
// as long as a request waits. The submission goes on, and another body does not go through
// under the id of one that is settled.
func TestAnIDIsCheckedAfterALongOutage(t *testing.T) {
	t.Parallel()
	r, restart := newRestartRig(t, 3*time.Second)
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
	restart()
	require.ErrorIs(t, <-got, ErrIDUsed)
}
