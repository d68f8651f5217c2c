package door

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/testing/queuetest"
)

// BenchmarkSubmit compares 64 callers that submit with as many that publish and wait for
// the confirmation of each message, as a plain handler would. With fsync, one flush stores
// what gathered meanwhile.
func BenchmarkSubmit(b *testing.B) {
	for _, sync := range []bool{false, true} {
		name := map[bool]string{false: "memory", true: "fsync"}[sync]
		b.Run(name+"/bare", func(b *testing.B) {
			r := benchRig(b, sync)
			js := r.broker.JetStream(b)
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
	return newRigOn(b, queuetest.Start(b, func(c *embedded.Config) { c.NoSync = !sync }))
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

// BenchmarkSubmitAll compares many orders of one caller with what an import publishes:
// four chunks at once.
func BenchmarkSubmitAll(b *testing.B) {
	b.Run("import", func(b *testing.B) {
		r := benchRig(b, false)
		const chunk = 500
		var chunks errgroup.Group
		chunks.SetLimit(4)
		for start := 0; start < b.N; start += chunk {
			chunks.Go(func() error {
				var intents []settle.Intent
				for i := start; i < min(start+chunk, b.N); i++ {
					no := fmt.Sprintf("N-%d", i)
					intents = append(intents, settle.Intent{OrderNo: no, Body: body(no, "1"), ID: no})
				}
				for _, res := range r.q.PublishMany(b.Context(), intents) {
					if res.Err != nil {
						return res.Err
					}
				}
				return nil
			})
		}
		require.NoError(b, chunks.Wait())
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
	})
	b.Run("all", func(b *testing.B) {
		r := benchRig(b, false)
		orders := func(yield func(Order) bool) {
			for i := 0; i < b.N && yield(one(fmt.Sprintf("N-%d", i), fmt.Sprintf("N-%d", i))); i++ {
			}
		}
		for _, err := range r.SubmitAll(b.Context(), orders) {
			require.NoError(b, err)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "orders/s")
	})
}
