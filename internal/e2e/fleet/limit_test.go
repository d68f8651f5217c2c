package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/e2e/child"
)

// TestFiveProcessesKeepOneLimit: five workers share a limit, one is killed with
// SIGKILL and two join half way. Within any second no more requests are sent
// than the limit and one for each worker (its burst of 50 ms' worth).
func TestFiveProcessesKeepOneLimit(t *testing.T) {
	t.Parallel()
	const limit, orders, late = 60, 540, 180
	r := newRig(t, map[string]string{"ORDERPOST_RATE_LIMIT": fmt.Sprint(limit)})
	all := r.startMany(5)
	r.shares(5, limit/5.)
	began := time.Now()
	r.publish("A", orders)
	r.eventually(func() bool { return r.created() >= orders/6 }, "orders flow")

	killed := time.Now()
	all[4].Kill()
	joiners := []*child.Child{r.start("w5"), r.start("w6")} // before the dead one is missed
	r.shares(6, limit/6.)
	t.Logf("six shares %s after one was killed and two were started", time.Since(killed).Round(10*time.Millisecond))
	r.publish("B", late) // for the new ones, however long the joining took
	recs := r.settled(orders + late)
	t.Logf("%d orders in %s", orders+late, time.Since(began).Round(10*time.Millisecond))

	senders := map[string]int{}
	for _, rec := range recs {
		senders[rec.Worker]++
	}
	for _, c := range append(all[:4:4], joiners...) {
		require.Positive(t, senders[c.Name], "%s sent nothing: %v", c.Name, senders)
	}
	r.requireLimit(limit, 7)
}

// requireLimit looks at every second, wherever it begins, by the time at which
// the workers signed; and says what the API counted by its own clock.
func (r *rig) requireLimit(limit, workers int) {
	r.t.Helper()
	var times []time.Time
	for _, s := range r.attempts() {
		times = append(times, stamped(r.t, s))
	}
	slices.SortFunc(times, time.Time.Compare)
	most, from := 0, 0
	for i, at := range times {
		for at.Sub(times[from]) >= time.Second {
			from++
		}
		most = max(most, i-from+1)
	}
	var counted int64
	for _, s := range r.api.Ledger().PerSecond {
		counted = max(counted, s.Creates)
	}
	r.t.Logf("limit %d/s: most sent within any second %d (excess %d); most arrived in a second of the API's clock %d (excess %d)",
		limit, most, most-limit, counted, counted-int64(limit))
	require.Greater(r.t, most, limit*3/4, "the fleet never came near its limit")
	require.LessOrEqual(r.t, most, limit+workers)
}
