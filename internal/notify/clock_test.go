package notify

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestAWallClockThatJumpsAheadLosesNoTurn: the lease does not count as held until the next
// renewal. The events whose turn it was are sent after that, by this session.
func TestAWallClockThatJumpsAheadLosesNoTurn(t *testing.T) {
	t.Parallel()
	q, e := openQueue(t, startBroker(t)), newHookServer(t)
	s := newTestSender(t, q, e.URL)
	var ahead atomic.Int64
	s.lease.Clock = func() time.Time {
		if d := ahead.Load(); d > 0 {
			return time.Now().Round(0).Add(time.Duration(d)) // the wall clock alone was set
		}
		return time.Now()
	}
	run(t, s)
	b := newLedger(t, q)
	b.put("first", "accepted")
	e.await(t, map[string]string{"first": "accepted"})
	session := s.stats.session.Load()
	require.NotNil(t, session)
	want := make(map[string]string)
	for n := range 50 {
		if n%10 == 0 {
			ahead.Add(int64(time.Hour))
		}
		no := fmt.Sprint("A-", n)
		b.put(no, "accepted")
		want[no] = "accepted"
	}
	e.await(t, want)
	require.Same(t, session, s.stats.session.Load())
}
