package door

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/internal/queue/embedded"
)

// BenchmarkSubmit compares 64 callers that submit with as many that publish and wait for
// the confirmation of each message, as a plain handler would. With fsync, one flush stores
// what gathered meanwhile.
func BenchmarkSubmit(b *testing.B) {
	for _, sync := range []bool{false, true} {
		name := map[bool]string{false: "memory", true: "fsync"}[sync]
		b.Run(name+"/bare", func(b *testing.B) {
			r := benchRig(b, sync)
			nc, err := nats.Connect(r.broker.URL, nats.Token(r.broker.Token))
			require.NoError(b, err)
			defer nc.Close()
			js, err := jetstream.New(nc)
			require.NoError(b, err)
			at64(b, func(i int64) error {
				no := fmt.Sprintf("N-%d", i)
				msg := &nats.Msg{Subject: "orders.new." + no, Data: body(no, "1"), Header: nats.Header{"Nats-Msg-Id": {no}}}
				f, err := js.PublishMsgAsync(msg)
				if err != nil {
					return err
				}
				select {
				case <-f.Ok():
					return nil
				case err := <-f.Err():
					return err
				}
			})
		})
		b.Run(name+"/made", func(b *testing.B) {
			r := benchRig(b, sync)
			at64(b, func(i int64) error {
				_, err := r.Submit(context.Background(), Order{Body: body(fmt.Sprintf("N-%d", i), "1")})
				return err
			})
		})
		b.Run(name+"/given", func(b *testing.B) {
			r := benchRig(b, sync)
			at64(b, func(i int64) error {
				no := fmt.Sprintf("N-%d", i)
				_, err := r.Submit(context.Background(), one(no, no))
				return err
			})
		})
	}
}

func benchRig(b *testing.B, sync bool) *rig {
	s := startBroker(b, func(c *embedded.Config) { c.NoSync = !sync })
	r := &rig{t: b, broker: s, worker: connect(b, s, asWorker)}
	r.Door = New(connect(b, s))
	b.Cleanup(r.Door.Close)
	return r
}

// at64 runs do b.N times by 64 callers.
func at64(b *testing.B, do func(i int64) error) {
	var n atomic.Int64
	b.SetParallelism(32) // for each of two processors
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := do(n.Add(1)); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
}
