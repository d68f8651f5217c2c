package books

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/patient"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

func TestMain(m *testing.M) { patient.Main(m) }

// startBroker runs an embedded server for one test.
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

// openQueue connects a worker of the given name to the broker.
func openQueue(t testing.TB, s *embedded.Server, name string) *queue.Queue {
	t.Helper()
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker = s.URL, s.Token, name, true
	cfg.Present = func(context.Context, *queue.Bucket) ([]string, error) { return nil, nil } // every worker of a test is this one
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}

// jetStream is a connection of the test's own.
func jetStream(t *testing.T, s *embedded.Server) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(s.URL, nats.Token(s.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

func body(no string) []byte { return fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"qty":"1"}`, no) }

// intent is an intent with a body of its own kind.
func intent(no, id string) settle.Intent { return settle.Intent{OrderNo: no, Body: body(no), ID: id} }

func publish(t *testing.T, q *queue.Queue, in ...settle.Intent) {
	t.Helper()
	defer trimming(t, q)()
	for i, r := range q.PublishMany(t.Context(), in) {
		require.NoError(t, r.Err)
		require.Equal(t, settle.Stored, r.Status, "intent %d", i)
	}
}

// trimming trims the log of intents until it is called again, as a worker does.
func trimming(t *testing.T, q *queue.Queue) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			_ = q.Trimmer.Trim(ctx)
			_ = settle.RealTime().Sleep(ctx, 5*time.Millisecond)
		}
	})
	return func() { cancel(); done.Wait() }
}

// pull returns exactly n checked deliveries.
func pull(t *testing.T, q *queue.Queue, n int) []*settle.Delivery {
	t.Helper()
	var got []*settle.Delivery
	for start := time.Now(); len(got) < n && time.Since(start) < 10*time.Second; {
		require.NoError(t, q.Pull(t.Context(), n-len(got), time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
	}
	require.Len(t, got, n)
	return got
}

func report(v order.Verdict, h order.History) order.Report {
	h.Attempts++
	return order.Report{End: order.EndAnswer, Verdict: v, Status: 200, History: h}
}

func settleAs(t *testing.T, q *queue.Queue, d *settle.Delivery, r order.Report) settle.Entry {
	t.Helper()
	entry, err := q.Worker.Settle(t.Context(), d, r, order.Decide(r, order.Facts{}))
	require.NoError(t, err)
	d.Release()
	return entry
}

// lookup reads the last word on an order_no.
func lookup(t *testing.T, q *queue.Queue, no string) settle.Entry {
	t.Helper()
	entry, err := q.Ledger.Lookup(t.Context(), no)
	require.NoError(t, err)
	return entry
}

func letterOf(t *testing.T, q *queue.Queue, no string) *settle.Letter {
	t.Helper()
	l, err := q.Ledger.Letter(t.Context(), no)
	require.NoError(t, err)
	return l
}

func requireBalanced(t *testing.T, q *queue.Queue) *AuditResult {
	t.Helper()
	a, err := Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	return a
}

// requireDrained waits until every plain ack has arrived.
func requireDrained(t *testing.T, q *queue.Queue) {
	t.Helper()
	require.Eventually(t, func() bool {
		_ = q.Trimmer.Trim(t.Context())
		room, err := q.Census.Room(t.Context())
		return err == nil && room.Msgs == 0
	}, time.Minute, 5*time.Millisecond)
}

// deadLetter brings an order to an end that files a letter.
func deadLetter(t *testing.T, q *queue.Queue, no string) *settle.Letter {
	t.Helper()
	publish(t, q, settle.Intent{OrderNo: no, Body: body(no), ID: "b1:" + no, Batch: "b1", Source: "march.csv:7"})
	r := report(order.Rejected, order.History{})
	r.Reason = "rule 2"
	settleAs(t, q, pull(t, q, 1)[0], r)
	requireDrained(t, q)
	return letterOf(t, q, no)
}

// replay replays a letter that was just listed, and makes sure that a dry run
// foretells what comes of it.
func replay(t *testing.T, q *queue.Queue, l *settle.Letter, o settle.ReplayOptions) settle.Replay {
	t.Helper()
	would, err := DryRunReplay(t.Context(), q, []*settle.Letter{l}, o)
	require.NoError(t, err)
	end, err := q.Operator.Replay(t.Context(), l, o)
	require.NoError(t, err)
	require.Equal(t, would[0], end, "what was foretold")
	return end
}
