package service_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/submit"
	"orderpost/internal/testing/netcut"
)

// R7: a worker holds an order that waits for the rate limit, and is frozen for
// longer than its claim lasts. When it wakes, the order is another worker's: it
// must not post it.
func TestR7AFrozenWorkerPostsNothingWhenItWakes(t *testing.T) {
	for _, policy := range []order.Policy{order.Resubmit, order.Park} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, policy)
			r.ackWait = 3 * time.Second // longer than a busy machine stands still
			var frozenPosts, otherPosts atomic.Int64
			cut := &netcut.Dialer{}
			frozen := r.start("frozen", cut, counted(&frozenPosts), func(c *submit.Config) { c.RateLimit = 1.0 / 8 })
			r.publish(frozen.q, "A-1")
			require.Eventually(t, func() bool { return r.outcome(frozen.q, "A-1") == order.OutcomeAccepted }, time.Minute, time.Millisecond)
			r.publish(frozen.q, "A-2")
			require.Eventually(t, func() bool { return frozen.submitter.Gate().State().InFlight == 1 }, time.Minute, time.Millisecond,
				"it has passed the gate, and waits 8 s for the rate limit")
			cut.Freeze()

			other := r.start("other", &netcut.Dialer{}, counted(&otherPosts))
			require.Eventually(t, func() bool { return r.outcome(other.q, "A-2") != order.OutcomeNone }, time.Minute, time.Millisecond)
			require.Eventually(t, func() bool { return frozen.submitter.Gate().State().InFlight == 0 }, time.Minute, time.Millisecond,
				"its turn has come, while it is frozen")
			cut.Thaw()
			recs := r.settled(other.q)
			require.Eventually(t, func() bool { return frozen.pool.InFlight() == 0 }, time.Minute, time.Millisecond)
			require.EqualValues(t, 1, frozenPosts.Load(), "the frozen worker posted after its claim was over")
			require.Equal(t, order.OutcomeAccepted, recs["A-1"].Outcome())
			if policy == order.Resubmit {
				require.Equal(t, order.OutcomeAccepted, recs["A-2"].Outcome())
				require.Equal(t, 1, r.attempts("A-2"))
			} else {
				require.Zero(t, r.attempts("A-2"), "parked: nothing explains the frozen delivery")
			}
		})
	}
}

func (r *rig) outcome(q *queue.Queue, no string) order.Outcome {
	entry, err := q.Ledger.Lookup(r.t.Context(), no)
	require.NoError(r.t, err)
	return entry.Record.Outcome()
}

// R7: the attempt itself ends with the claim: a request that hangs while the
// broker is out of reach is cut off, and counts as doubt.
func TestR7AnAttemptEndsWithItsClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit)
	cut := &netcut.Dialer{}
	begun, cutOff := make(chan struct{}), make(chan struct{})
	var once, onceOff sync.Once
	first := r.start("first", cut, transport(func(req *http.Request) (*http.Response, error) {
		once.Do(func() { close(begun) })
		<-req.Context().Done()
		onceOff.Do(func() { close(cutOff) })
		return nil, req.Context().Err()
	}), func(c *submit.Config) { c.RequestTimeout = time.Hour })
	r.publish(first.q, "A-1")
	<-begun
	cut.Kill()
	select {
	case <-cutOff:
	case <-time.After(time.Minute):
		require.Fail(t, "the attempt goes on although the claim is over")
	}
	first.stop()
	second := r.start("second", &netcut.Dialer{}, http.DefaultTransport)
	require.Equal(t, order.OutcomeAccepted, r.settled(second.q)["A-1"].Outcome())
}
