package queue

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// BenchmarkTimes compares two ways to let orders wait for their time, see
// docs/decisions.md: the broker's own message schedules, and
// subjects that name the second, which a feeder lists. Broker and client are one
// process. Each order has a second of its own within eleven days, but for a tenth,
// which are due together.
func BenchmarkTimes(b *testing.B) {
	const orders = 100_000
	for _, schedules := range []bool{true, false} {
		name := "subjects"
		if schedules {
			name = "schedules"
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				benchTimes(b, orders, schedules)
				b.StartTimer()
			}
		})
	}
}

func benchTimes(b *testing.B, orders int, schedules bool) {
	b.StopTimer()
	s, err := embedded.Start(embedded.Config{Dir: b.TempDir(), Listen: "127.0.0.1:0", NoSync: true})
	noError(b, err)
	defer s.Stop()
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Present = s.URL, s.Token, "bench", true, present
	q, err := Open(b.Context(), cfg, zerolog.Nop())
	noError(b, err)
	defer q.Close()
	stream := jetstream.StreamConfig{Name: "TIMES", Subjects: []string{"times.>"}, AllowDirect: true, AllowAtomicPublish: true, AllowMsgSchedules: true}
	_, err = q.Conn.js.CreateStream(b.Context(), stream)
	noError(b, err)

	before := heap()
	soon := time.Now().Add(20 * time.Second).Truncate(time.Second)
	due := 0
	for start := 0; start < orders; start += 500 {
		batch := make([]*nats.Msg, 0, 500)
		for i := start; i < start+500; i++ {
			at := soon
			if i%10 > 0 {
				at = soon.Add(time.Hour + time.Duration(i)*10*time.Second)
			} else {
				due++
			}
			no := fmt.Sprint("A-", i)
			m := q.Producer.IntentMessage(settle.Intent{OrderNo: no, Body: body(no), ID: no, Batch: "march", NotBefore: at})
			if schedules {
				m.Subject = "times.at." + no
				m.Header.Set("Nats-Schedule", "@at "+at.Format(time.RFC3339Nano))
				m.Header.Set("Nats-Schedule-Target", "times.due.march")
			}
			batch = append(batch, natsMsg(m))
		}
		_, err := jetstreamext.PublishMsgBatch(b.Context(), q.Conn.js, batch)
		noError(b, err)
	}
	b.ReportMetric(float64(heap()-before)/float64(orders), "heap-B/order")
	time.Sleep(time.Until(soon))
	peak := heapNow()
	b.StartTimer()
	for seen := 0; seen < due; {
		seen = 0
		if schedules {
			stream, err := q.Conn.js.Stream(b.Context(), stream.Name)
			noError(b, err)
			info, err := stream.Info(b.Context(), jetstream.WithSubjectFilter("times.due.*"))
			noError(b, err)
			seen = int(info.State.Subjects["times.due.march"])
		} else {
			list, err := q.Waiting.InMinute(b.Context(), soon)
			noError(b, err)
			for _, w := range list {
				if !w.At.After(soon) {
					seen += w.Count
				}
			}
		}
		peak = max(peak, heapNow())
	}
	b.StopTimer()
	b.ReportMetric(time.Since(soon).Seconds()*1000, "ms-until-all-are-due")
	b.ReportMetric(float64(peak-before)/1e6, "peak-heap-MB")
}

func noError(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// heap returns the live heap in bytes, heapNow with what is not collected yet.
func heap() int64 {
	runtime.GC()
	return heapNow()
}

func heapNow() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
