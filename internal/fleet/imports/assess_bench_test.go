package imports

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// BenchmarkAssess reads what waits of an import of b.N rows, as the page of its approval does,
// and the worker that compares it with what was approved. heap-MB is how much more the heap holds
// meanwhile, at most, cpu-s what the process used, both with the broker in it.
//
//	go test ./internal/fleet/imports -run XXX -bench Assess -benchtime 1000000x
func BenchmarkAssess(b *testing.B) {
	q := openQueue(b, startBroker(b), "w1")
	const chunk = 1000
	for start := 0; start < b.N; start += chunk {
		intents := make([]settle.Intent, 0, chunk)
		for i := start; i < min(b.N, start+chunk); i++ {
			no := fmt.Sprintf("ORDER-%010d", i)
			intents = append(intents, settle.Intent{OrderNo: no, ID: "march:" + no, Batch: "march", Lane: "bulk", Source: fmt.Sprintf("march.csv:%d", i+2),
				Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"sku":"%08d","quantity":%d,"amount":%d.%02d,"currency":"EUR","customer":"customer number %d","street":"Long Street %d, back door","note":"leave it with the neighbour; ring twice, then wait %0100d"}`, no, i, i%9+1, i%900, i%100, i, i%300, i)})
		}
		for _, r := range q.PublishMany(b.Context(), intents) {
			require.NoError(b, r.Err)
		}
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	most, done := before.HeapAlloc, make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
	})
	used := cpu(b)
	b.ResetTimer()
	a, err := Assess(b.Context(), q, "march", "amount", queue.ToTheEnd, nil)
	b.StopTimer()
	used = cpu(b) - used
	close(done)
	watch.Wait()
	require.NoError(b, err)
	require.Equal(b, b.N, a.Count)
	require.Zero(b, a.Repeated)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(used.Seconds(), "cpu-s")
	b.ReportMetric(float64(most-before.HeapAlloc)/(1<<20), "heap-MB")
}

// cpu is the time for which the process has used a processor.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
