package notify

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/order"
)

// BenchmarkFromStoredToSent stores 500 outcomes a second, and reports how long it takes until the
// receiver has each. The goal is a p99 below 50 ms.
func BenchmarkFromStoredToSent(b *testing.B) {
	q := openQueue(b, startBroker(b))
	var mu sync.Mutex
	arrived := make(map[string]time.Time)
	e := newHookServer(b)
	e.answer = func(g got) (int, http.Header) {
		mu.Lock()
		defer mu.Unlock()
		arrived[g.Data.OrderNo] = time.Now()
		return http.StatusNoContent, nil
	}
	run(b, newTestSender(b, q, e.URL))
	ledger, stored := newLedger(b, q), make(map[string]time.Time)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for i := 0; b.Loop(); i++ {
		<-tick.C
		no := fmt.Sprintf("A-%d", i)
		ledger.put(no, "accepted")
		stored[no] = time.Now()
	}
	var took []time.Duration
	require.Eventually(b, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(arrived) == len(stored)
	}, time.Minute, time.Millisecond)
	for no, at := range stored {
		took = append(took, arrived[no].Sub(at))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkBacklog sends what has gathered behind a receiver, and reports how many outcomes a
// second it takes.
func BenchmarkBacklog(b *testing.B) {
	q := openQueue(b, startBroker(b))
	var all errgroup.Group
	all.SetLimit(64)
	at := time.Now().UTC()
	for i := range b.N {
		all.Go(func() error {
			no := fmt.Sprintf("A-%d", i)
			_, err := q.Store().PutRecord(b.Context(), no, &order.Record{OrderNo: no, Word: "accepted", IntentID: no, WriteID: no, SettledAt: at}, 0)
			return err
		})
	}
	require.NoError(b, all.Wait())
	e := newHookServer(b)
	s := newTestSender(b, q, e.URL)
	b.ResetTimer()
	run(b, s)
	require.Eventually(b, func() bool { return s.Stats().Attempts["2xx"] >= uint64(b.N) }, 5*time.Minute, time.Millisecond)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "outcomes/s")
}
