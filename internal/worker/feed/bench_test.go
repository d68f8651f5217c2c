package feed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// BenchmarkCancel measures how fast a feeder withdraws a cancelled import, on a broker that
// fsyncs every write.
func BenchmarkCancel(b *testing.B) {
	s, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Listen: "127.0.0.1:0"})
	require.NoError(b, err)
	b.Cleanup(s.Stop)
	q := openQueue(b, s, "w1")
	for b.Loop() {
		b.StopTimer()
		in := waitingIntents("bulk", "march", 20_000)
		for i := range in {
			in[i].ID = ""
		}
		for _, r := range q.PublishMany(b.Context(), in) {
			require.NoError(b, r.Err)
		}
		last, err := q.Waiting.End(b.Context())
		require.NoError(b, err)
		q.Ledger.SetCancellations(settle.Cancellations{Version: time.Now().UnixNano(), Marks: []settle.Cancellation{{Import: "march", Waiting: last, At: time.Now()}}})
		f := newFeeder(b, q, "w1")
		b.StartTimer()
		for waits := 1; waits > 0; {
			_, err := f.round(b.Context())
			require.NoError(b, err)
			f.listed = time.Time{}
			_, waits, err = q.Waiting.Now(b.Context())
			require.NoError(b, err)
		}
		require.NoError(b, f.lease.Leave())
	}
	b.ReportMetric(float64(b.N*20_000)/b.Elapsed().Seconds(), "orders/s")
}
