package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) { patient.Main(m) }

// startBroker runs an embedded server for one test.
func startBroker(t *testing.T) *embedded.Server { return startBrokerIn(t, t.TempDir()) }

func startBrokerIn(t *testing.T, dir string) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

// living replaces fleet.Living: the test's workers write presence.<name>.
func living(ctx context.Context, b *Bucket, self string) (other string, err error) {
	const prefix = "presence."
	err = b.Walk(ctx, prefix, func(e Entry) error {
		if name := strings.TrimPrefix(e.Key, prefix); name != self {
			other = name
		}
		return nil
	})
	return other, err
}

// openQueue connects a worker of the given name to the broker.
func openQueue(t *testing.T, s *embedded.Server, name string, change ...func(*Config)) *Queue {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Living = s.URL, s.Token, name, true, living
	for _, c := range change {
		c(&cfg)
	}
	q, err := Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}

// openCut connects a worker whose connection can be cut.
func openCut(t *testing.T, s *embedded.Server, name string, cut *netcut.Dialer) *Queue {
	t.Helper()
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Living = s.URL, s.Token, name, true, living
	q, err := Open(t.Context(), cfg, zerolog.Nop(), nats.SetCustomDialer(cut),
		nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}

// intent is an intent with a body of its own kind.
func intent(no, id string) settle.Intent { return settle.Intent{OrderNo: no, Body: body(no), ID: id} }

// lookup reads the last word on an order_no.
func lookup(t *testing.T, q *Queue, no string) *order.Record {
	t.Helper()
	entry, err := q.Ledger.Lookup(t.Context(), no)
	require.NoError(t, err)
	return entry.Record
}

func letterOf(t *testing.T, q *Queue, no string) *settle.Letter {
	t.Helper()
	l, err := q.Ledger.Letter(t.Context(), no)
	require.NoError(t, err)
	return l
}

func body(no string) []byte { return fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"qty":"1"}`, no) }

func publish(t *testing.T, q *Queue, in ...settle.Intent) {
	t.Helper()
	defer trimming(t, q)()
	for i, r := range q.PublishMany(t.Context(), in) {
		require.NoError(t, r.Err)
		require.Equal(t, settle.Stored, r.Status, "intent %d", i)
	}
}

// requireStored waits until the intents stream holds so many intents.
func requireStored(t *testing.T, q *Queue, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		_ = q.Trimmer.Trim(t.Context())
		room, err := q.Census.Room(t.Context())
		return err == nil && room.Msgs == int64(n)
	}, time.Minute, 5*time.Millisecond)
}

// trimming trims the log of intents until it is called again, as a worker does.
func trimming(t *testing.T, q *Queue) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			_ = q.Trimmer.Trim(ctx)
			_ = settle.Sleep(ctx, 5*time.Millisecond)
		}
	})
	return func() { cancel(); done.Wait() }
}

// pull returns exactly n checked deliveries.
func pull(t *testing.T, q *Queue, n int) []*settle.Delivery {
	t.Helper()
	var got []*settle.Delivery
	for start := time.Now(); len(got) < n && time.Since(start) < time.Minute; {
		require.NoError(t, q.Pull(t.Context(), n-len(got), time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
	}
	require.Len(t, got, n)
	return got
}

func settleAs(t *testing.T, q *Queue, d *settle.Delivery, r order.Report) settle.Entry {
	t.Helper()
	entry, err := q.Worker.Settle(t.Context(), d, &r, order.Decide(&r, order.Facts{}))
	require.NoError(t, err)
	d.Release()
	return entry
}

func report(v order.Verdict, h order.History) order.Report {
	h.Attempts++
	return order.Report{End: order.EndAnswer, Verdict: v, Status: 200, History: h}
}

// requireDrained waits until every plain ack has arrived and the log is trimmed.
func requireDrained(t *testing.T, q *Queue) {
	t.Helper()
	requireStored(t, q, 0)
}
