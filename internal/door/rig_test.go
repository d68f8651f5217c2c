package door

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/patient"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

func TestMain(m *testing.M) { patient.Main(m) }

func startBroker(t testing.TB, change ...func(*embedded.Config)) *embedded.Server {
	t.Helper()
	cfg := embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true}
	for _, c := range change {
		c(&cfg)
	}
	s, err := embedded.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

func connect(t testing.TB, s *embedded.Server, change ...func(*queue.Config)) *queue.Queue {
	t.Helper()
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name = s.URL, s.Token, t.Name()
	for _, c := range change {
		c(&cfg)
	}
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}

// asWorker makes a queue a worker's, which creates the streams.
func asWorker(cfg *queue.Config) { cfg.Worker, cfg.Present = true, fleet.Present }

// rig is a broker, a worker's queue, and a door with a queue of its own.
type rig struct {
	*Door
	t      testing.TB
	broker *embedded.Server
	worker *queue.Queue
}

func newRig(t testing.TB, change ...func(*queue.Config)) *rig {
	t.Helper()
	s := startBroker(t)
	r := &rig{t: t, broker: s, worker: connect(t, s, asWorker)}
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
	h := settle.NewHandler(r.worker.Worker, settle.HandlerOptions{Submit: func(_ context.Context, s order.Submission) order.Report {
		s.History.Attempts++
		return order.Report{End: order.EndAnswer, Verdict: verdict, Status: 200, History: s.History}
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

// trim trims the log of intents until the test ends, as a worker does.
func (r *rig) trim() {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			_ = r.worker.Trimmer.Trim(ctx)
			_ = settle.RealTime().Sleep(ctx, 5*time.Millisecond)
		}
	})
	r.t.Cleanup(func() { cancel(); done.Wait() })
}

// waitLong and waitShort are for require.Eventually.
const (
	waitLong  = time.Minute
	waitShort = time.Millisecond
)
