package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// BenchmarkAudit audits ORDERPOST_AUDIT_ORDERS (300,000) accepted orders on an embedded broker: as they came, and
// after one of them was written again, which leaves a hole in the stream and makes the broker's batches slow.
func BenchmarkAudit(b *testing.B) {
	n, err := strconv.Atoi(os.Getenv("ORDERPOST_AUDIT_ORDERS"))
	if err != nil {
		n = 300_000
	}
	s := startBroker(b)
	openQueue(b, s, "a").Close()
	accepted(b, s, n)
	s.Stop() // it starts without what it keeps in memory of new messages
	s.Restart(b)
	q := openQueue(b, s, "a")
	audit := func(full bool) func(b *testing.B) {
		return func(b *testing.B) {
			before, heap := cpu(b), live()
			var a *AuditResult
			for b.Loop() {
				a, err = Run(b.Context(), q, Options{Full: full})
				require.NoError(b, err)
				require.True(b, a.Balanced(), "%+v", a)
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(b.N)/float64(n), "cpu-µs/order")
			b.ReportMetric(float64(a.Read), "read")
			b.ReportMetric(float64(live()-heap)/float64(n), "live-B/order")
		}
	}
	b.Run("full", audit(true))
	b.Run("going on", audit(false))
	changeRecordOf(b, q, fmt.Sprint("A-", n/2), func(*order.Record) {})
	b.Run("full with a hole", audit(true))
	changeRecordOf(b, q, fmt.Sprint("A-", n/3), func(*order.Record) {})
	b.Run("going on after a change", audit(false))
}

// live returns how many bytes of the heap are in use.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// accepted stores records of n accepted orders, and makes the intents look as if they had been stored and settled.
func accepted(b testing.TB, s *queuetest.Broker, n int) {
	js := s.JetStream(b)
	nc := js.Conn()
	now := time.Now().UTC()
	for i := 1; i <= n; i++ {
		r := record(fmt.Sprint("A-", i), uint64(i), now)
		data, err := r.AppendJSON(nil)
		require.NoError(b, err)
		msg := nats.NewMsg("orders.results." + order.Token(r.OrderNo))
		msg.Data = data
		msg.Header.Set(settle.HeaderOutcome, r.Word)
		_, err = js.PublishMsgAsync(msg, jetstream.WithStallWait(time.Minute))
		require.NoError(b, err)
	}
	<-js.PublishAsyncComplete()
	past, err := json.Marshal(map[string]int{"seq": n + 1})
	require.NoError(b, err)
	_, err = nc.Request("$JS.API.STREAM.PURGE.ORDERS", past, time.Minute)
	require.NoError(b, err)
}

// cpu returns the processor time of this process, the broker's included.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
