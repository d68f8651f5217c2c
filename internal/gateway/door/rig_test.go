package door

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

func connect(t testing.TB, s *queuetest.Broker, change ...func(*queue.Config)) *queue.Queue {
	t.Helper()
	return queuetest.Open(t, s, t.Name(), append([]func(*queue.Config){queuetest.AsCommand}, change...)...)
}

// rig is a broker, a worker's queue, and a door with a queue of its own.
type rig struct {
	*Door
	t      testing.TB
	broker *queuetest.Broker
	worker *queue.Queue
}

func newRig(t testing.TB, change ...func(*queue.Config)) *rig {
	t.Helper()
	return newRigOn(t, queuetest.Start(t), change...)
}

func newRigOn(t testing.TB, s *queuetest.Broker, change ...func(*queue.Config)) *rig {
	t.Helper()
	r := &rig{t: t, broker: s, worker: queuetest.Open(t, s, "worker")}
	r.Door = New(connect(t, s, change...), nil)
	t.Cleanup(r.Door.Close)
	return r
}

func body(no, qty string) []byte {
	return fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"qty":%q}`, no, qty)
}

// one is an order with an ID.
func one(no, id string) Order { return Order{Body: body(no, "1"), ID: id, Source: "shop"} }

func (r *rig) submit(o Order, want Status) Receipt {
	r.t.Helper()
	got, err := r.Submit(r.t.Context(), o)
	require.NoError(r.t, err)
	require.Equal(r.t, want, got.Status)
	return got
}

// answer handles the next n deliveries as a worker does, to which the API answers with a
// verdict.
func (r *rig) answer(n int, verdict order.Verdict) {
	r.t.Helper()
	h := settle.NewHandler(r.worker.Worker, settle.HandlerOptions{Submit: func(_ context.Context, s *order.Submission) *order.Report {
		s.History.Attempts++
		return &order.Report{End: order.EndAnswer, Verdict: verdict, Status: 200, History: s.History}
	}})
	var handled sync.WaitGroup
	for done, began := 0, time.Now(); done < n; {
		require.Less(r.t, time.Since(began), time.Minute)
		require.NoError(r.t, r.worker.Pull(r.t.Context(), min(n-done, 500), time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				done++
				handled.Go(func() { h.Handle(r.t.Context(), r.t.Context(), d, nil) })
			}
		}))
		handled.Wait()
	}
}

// waitLong and waitShort are for require.Eventually.
const (
	waitLong  = time.Minute
	waitShort = time.Millisecond
)
