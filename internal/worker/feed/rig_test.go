package feed

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

func startBroker(t testing.TB) *embedded.Server { return queuetest.Start(t).Server }

// openQueue connects a worker with a waiting room.
func openQueue(t testing.TB, s *embedded.Server, name string, change ...func(*queue.Config)) *queue.Queue {
	t.Helper()
	cfg := (&queuetest.Broker{Server: s}).Config(name)
	cfg.Living = fleet.Living
	for _, c := range change {
		c(&cfg)
	}
	return queuetest.Connect(t, cfg)
}

// newFeeder returns a feeder that a test runs or steps.
func newFeeder(t testing.TB, q *queue.Queue, name string) *Feeder {
	return New(Options{Queue: q, Fleet: fleet.New(q), Name: name, Log: zerolog.New(zerolog.NewTestWriter(t))})
}

// run runs a feeder until stop is called.
func run(t *testing.T, f *Feeder) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// waitingIntents returns n intents of one lane and import.
func waitingIntents(lane, batch string, n int) []settle.Intent {
	out := make([]settle.Intent, n)
	for i := range out {
		no := fmt.Sprintf("%s-%s-%d", lane, batch, i)
		out[i] = settle.Intent{OrderNo: no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30}`, no), ID: batch + ":" + fmt.Sprint(i+1), Lane: lane, Batch: batch}
	}
	return out
}

func publish(t *testing.T, q *queue.Queue, in ...settle.Intent) {
	t.Helper()
	for i, r := range q.PublishMany(t.Context(), in) {
		require.NoError(t, r.Err)
		require.Equal(t, settle.Stored, r.Status, "intent %d", i)
	}
}

// work settles what is in the queue as accepted until n intents are settled, and
// returns their order numbers in the order of their deliveries.
func work(t *testing.T, q *queue.Queue, n int) []string {
	t.Helper()
	var got []string
	for start := time.Now(); len(got) < n && time.Since(start) < 20*time.Second; {
		require.NoError(t, q.Pull(t.Context(), n-len(got), time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				require.Equal(t, settle.WorkSubmit, d.Work)
				r := order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200, History: order.History{Attempts: 1}}
				_, err := q.Worker.Settle(t.Context(), d, &r, order.Decide(&r, order.Facts{}))
				require.NoError(t, err)
				d.Release()
				got = append(got, d.OrderNo())
			}
		}))
	}
	require.Len(t, got, n)
	return got
}

// total counts what waits.
func total(t *testing.T, q *queue.Queue) int {
	t.Helper()
	_, n, err := q.Waiting.Now(t.Context())
	require.NoError(t, err)
	return n
}

// list lets a feeder take the lease and list what waits, and feeds nothing.
func list(t *testing.T, f *Feeder) {
	t.Helper()
	ahead := time.Now().Add(time.Minute) // however long this machine stands still before it is fed
	f.lease.Clock = func() time.Time { return ahead }
	_, err := f.lease.Keep(t.Context())
	require.NoError(t, err)
	_, err = f.readHolds(t.Context())
	require.NoError(t, err)
	require.NoError(t, f.list(t.Context()))
}
