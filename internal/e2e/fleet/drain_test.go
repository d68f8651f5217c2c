package fleet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/sandbox"
)

// TestDrainHandsOver: a worker is stopped while its orders wait for their next
// attempt, which is months away (waits are drawn from zero on); the other one takes them at once, and not
// after AckWait.
func TestDrainHandsOver(t *testing.T) {
	t.Parallel()
	const orders = 16
	r := newRig(t, map[string]string{
		"ORDERPOST_ACK_WAIT": "30s", "ORDERPOST_RETRY_BASE": "5000h", "ORDERPOST_RETRY_MAX": "5000h", "ORDERPOST_RETRY_SUBMISSION_TIME": "5001h", "ORDERPOST_DRAIN_TIMEOUT": "50s",
		"ORDERPOST_REQUEST_TIMEOUT": "10s", "ORDERPOST_HEADER_TIMEOUT": "10s", // nobody is asked twice because the machine is busy
	})
	require.NoError(t, r.api.Update(func(s *sandbox.Settings) { s.Faults.Unavailable, s.Faults.MaxPerOrder = 1, 1 }))
	first := r.start("first")
	r.publish("A", orders)
	r.eventually(func() bool { return len(r.attempts()) == orders }, "each order was refused once, and waits")
	require.NoError(t, r.api.Update(func(s *sandbox.Settings) { s.Faults.Unavailable = 0 }))
	r.start("second")
	r.eventually(func() bool { return len(r.members()) == 2 }, "both are there")
	r.eventually(func() bool { return r.inHand() == orders }, "the first has all of them")

	stopped := time.Now()
	t.Logf("the worker ended %s after SIGTERM", first.End(patience).Round(time.Millisecond))
	var latest time.Duration
	for no, rec := range r.settled(orders) {
		require.Equal(t, "second", rec.Worker, no)
		require.Equal(t, 2, rec.Attempts, no)
		latest = max(latest, rec.LastAttemptAt.Sub(stopped))
	}
	t.Logf("the last order was asked for again %s after SIGTERM", latest.Round(time.Millisecond))
	require.Less(t, latest, 20*time.Second, "an order waited for its claim to end")
}
