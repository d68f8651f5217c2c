package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/sandbox"
)

// TestRollingRestart replaces three workers one by one, while orders flow and the API
// fails now and then. Each order exists once, the books balance, and those that came and
// those that went did their part.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	const workers, batch = 3, 200
	r := newRig(t, map[string]string{"ORDERPOST_CONCURRENCY": "6", "ORDERPOST_LOG_LEVEL": "info", "ORDERPOST_RETRY_DELAY_MAX": "500ms"})
	require.NoError(t, r.api.Update(func(s *sandbox.Settings) {
		s.Latency, s.Duplicates = 60*time.Millisecond, sandbox.RefuseDuplicates
		s.Faults = sandbox.Faults{Unavailable: 0.02, UnavailableAfter: 0.01, DropBefore: 0.01, DropAfter: 0.02, MaxPerOrder: 2}
	}))
	flow := func(n int) {
		t.Helper()
		from := r.created()
		r.eventually(func() bool { return r.created() >= from+n }, "orders flow")
	}
	now := r.startMany(workers)
	r.publish("first", batch)
	flow(batch / 4)
	for i, last := range now {
		next := r.start(fmt.Sprintf("next-%d", i))
		r.eventually(func() bool { return len(r.members()) == workers+1 }, "%s appears:\n%s", next.Name, next.Said())
		r.publish(next.Name, batch)
		flow(batch / 4)
		t.Logf("%s ended in %s, in the middle of a batch", last.Name, last.End(patience).Round(time.Millisecond))
		r.eventually(func() bool { return len(r.members()) == workers }, "%s has left", last.Name)
	}
	by := map[string]int{}
	for _, rec := range r.settled((1 + workers) * batch) {
		by[rec.Worker]++
	}
	t.Log(by)
	for i := range workers {
		require.Positive(t, by[fmt.Sprintf("w%d", i)])
		require.Positive(t, by[fmt.Sprintf("next-%d", i)])
	}
}
