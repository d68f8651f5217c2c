package service_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/sandbox"
	"orderpost/internal/submit"
	"orderpost/internal/testing/netcut"
)

// limitResults makes the results stream as good as full, or takes the limit
// away.
func (r *rig) limitResults(most int64) {
	r.t.Helper()
	js := r.broker.JetStream(r.t)
	stream, err := js.Stream(r.t.Context(), "ORDERS_RESULTS")
	require.NoError(r.t, err)
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgs = most
	_, err = js.UpdateStream(r.t.Context(), cfg)
	require.NoError(r.t, err)
}

// R10: results are refused. At most what is in flight is posted; nothing is
// lost, and the pool goes on by itself once there is room.
func TestR10FullResultsHoldTheGateUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit)
	r.ackWait = 20 * time.Second // an order whose claim lapses may be posted again
	var posts atomic.Int64
	w := r.start("w", &netcut.Dialer{}, counted(&posts), func(c *submit.Config) { c.GatePatience = time.Minute })
	r.publish(w.q, "B-0")
	require.Eventually(t, func() bool { return r.outcome(w.q, "B-0") == order.OutcomeAccepted }, time.Minute, time.Millisecond)
	r.limitResults(1)

	var nos []string
	for i := range 50 {
		nos = append(nos, fmt.Sprint("C-", i))
	}
	r.publish(w.q, nos...)
	require.Eventually(t, func() bool { return len(w.submitter.Gate().State().Reasons) > 0 }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return w.submitter.Gate().State().InFlight == 0 }, time.Minute, time.Millisecond)
	held := posts.Load()
	require.LessOrEqual(t, held, int64(1+8), "more was posted than was in flight")

	r.limitResults(-1)
	recs := r.settled(w.q)
	require.Len(t, recs, 51)
	for no, rec := range recs {
		require.Equal(t, order.OutcomeAccepted, rec.Outcome(), no)
		require.Equal(t, 1, r.attempts(no), "%s was posted again", no)
	}
	require.Empty(t, w.submitter.Gate().State().Reasons)
}

// The broker is stopped under load, and comes back on the same address with the
// same files: the worker goes on by itself, and the books balance.
func TestABrokerThatIsRestartedUnderLoadLosesNothing(t *testing.T) {
	for _, policy := range []order.Policy{order.Resubmit, order.Park} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, policy, func(s *sandbox.Settings) { s.Latency = 5 * time.Millisecond })
			r.ackWait = 5 * time.Second // only the restarts cause doubt
			w := r.start("w", &netcut.Dialer{}, http.DefaultTransport, func(c *submit.Config) { c.RequestTimeout = time.Minute })
			const n = 600
			var nos []string
			for i := range n {
				nos = append(nos, fmt.Sprint("D-", i))
			}
			r.publish(w.q, nos...)
			for round := int64(1); round <= 2; round++ {
				require.Eventually(t, func() bool { return r.api.Ledger().OrdersCreated >= round*n/6 }, 20*time.Second, time.Millisecond)
				r.broker.Stop()
				r.broker.Restart(t)
			}
			recs := r.settled(w.q)
			require.Len(t, recs, n)
			doubts := 0
			for no, rec := range recs {
				if rec.Outcome() == order.OutcomeUnknown {
					doubts++
					continue
				}
				require.Equal(t, order.OutcomeAccepted, rec.Outcome(), no)
			}
			if policy == order.Resubmit {
				require.Zero(t, doubts, "asking again settles every doubt")
			} else {
				const inHand = 8 + 7 // the slots, and the prefetch
				require.LessOrEqual(t, doubts, 2*inHand, "at most what was in hand is parked")
			}
		})
	}
}

// R10: the API accepted an order, and then its result is refused. The write is
// repeated until it is stored, and the POST never is. A loop around the whole
// handling would take the order to the API again.
func TestR10ARefusedResultIsWrittenAgainAndNotPostedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit)
	r.ackWait = 20 * time.Second
	created, full := make(chan struct{}), make(chan struct{})
	var first sync.Once
	w := r.start("w", &netcut.Dialer{}, transport(func(req *http.Request) (*http.Response, error) {
		answer, err := http.DefaultTransport.RoundTrip(req)
		if r.attempts("B-1") > 0 {
			first.Do(func() { close(created) })
			<-full
		}
		return answer, err
	}), func(c *submit.Config) { c.GatePatience = time.Millisecond })
	r.publish(w.q, "B-0")
	require.Eventually(t, func() bool { return r.outcome(w.q, "B-0") == order.OutcomeAccepted }, time.Minute, time.Millisecond)
	r.publish(w.q, "B-1")
	<-created
	r.limitResults(1)
	close(full)
	require.Eventually(t, func() bool { return w.q.ResultFailures().Refused >= 3 }, 20*time.Second, time.Millisecond)
	r.limitResults(-1)
	recs := r.settled(w.q)
	require.Equal(t, order.OutcomeAccepted, recs["B-1"].Outcome())
	require.Equal(t, 1, r.attempts("B-1"), "it was posted again")
	require.Equal(t, 1, recs["B-1"].Attempts)
}
