package settle_test

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

	"orderpost/internal/books"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/patient"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/queue/netcut"
	"orderpost/internal/settle"
)

func TestMain(m *testing.M) { patient.Main(m) }

// startBroker runs an embedded server for one test.
func startBroker(t *testing.T, change ...func(*embedded.Config)) *embedded.Server {
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

// jetStream opens a connection of the test's own.
func jetStream(t *testing.T, s *embedded.Server) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(s.URL, nats.Token(s.Token), nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

func workerConfig(s *embedded.Server, name string) queue.Config {
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.Worker, cfg.Present = s.URL, s.Token, name, true, fleet.Present
	return cfg
}

// twoOwners publishes an intent that worker a was given and then worker b: a does not know
// that its claim is over.
func twoOwners(t *testing.T) (a, b *queue.Queue, former, present *settle.Delivery) {
	t.Helper()
	s := startBroker(t)
	a, b = openQueue(t, s, "a"), openQueue(t, s, "b")
	publish(t, a, intent("A-1", "i1"))
	former = pull(t, a, 1)[0]
	return a, b, former, again(t, former, b)
}

// attempting notes a delivery's first attempt, which is under way then.
func attempting(t *testing.T, q *queue.Queue, d *settle.Delivery) order.History {
	t.Helper()
	h := d.History
	h.Attempts, h.LastAttemptAt = 1, time.Now().UTC()
	require.NoError(t, q.Worker.NoteAttempt(t.Context(), d, h))
	return h
}

// meanwhile is a store that runs a function once, before or after the first request of a kind.
type meanwhile struct {
	settle.Store
	beforeIntent, afterIntent, afterLetter, beforePublish, beforeRemoval func()
}

func once(do *func()) {
	if now := *do; now != nil {
		*do = nil
		now()
	}
}

func (s *meanwhile) Intent(ctx context.Context, orderNo string) (*settle.Message, error) {
	once(&s.beforeIntent)
	defer once(&s.afterIntent)
	return s.Store.Intent(ctx, orderNo)
}

func (s *meanwhile) Intents(ctx context.Context, orderNos []string) ([]*settle.Message, error) {
	once(&s.beforeIntent)
	defer once(&s.afterIntent)
	return s.Store.Intents(ctx, orderNos)
}

func (s *meanwhile) Letter(ctx context.Context, token string) (*settle.Letter, error) {
	defer once(&s.afterLetter)
	return s.Store.Letter(ctx, token)
}

func (s *meanwhile) PublishIntent(ctx context.Context, m *settle.Message) (settle.PublishStatus, uint64, error) {
	once(&s.beforePublish)
	return s.Store.PublishIntent(ctx, m)
}

func (s *meanwhile) DeleteLetter(ctx context.Context, token string, l *settle.Letter) error {
	once(&s.beforeRemoval)
	return s.Store.DeleteLetter(ctx, token, l)
}

// openQueue connects a worker of the given name to the broker.
func openQueue(t *testing.T, s *embedded.Server, name string, change ...func(*queue.Config)) *queue.Queue {
	t.Helper()
	cfg := workerConfig(s, name)
	for _, c := range change {
		c(&cfg)
	}
	q, err := queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
}

// openCut connects a worker whose connection can be cut.
func openCut(t *testing.T, s *embedded.Server, name string, cut *netcut.Dialer) *queue.Queue {
	t.Helper()
	q, err := queue.Open(t.Context(), workerConfig(s, name), zerolog.Nop(), nats.SetCustomDialer(cut),
		nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0))
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q
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

// forgetIDs makes the broker forget the IDs of intents soon. Call it before the first is
// published: its timer may have been set for the former time.
func forgetIDs(t *testing.T, s *embedded.Server) {
	t.Helper()
	js := jetStream(t, s)
	stream, err := js.Stream(t.Context(), "ORDERS")
	require.NoError(t, err)
	forgetful := stream.CachedInfo().Config
	forgetful.Duplicates = 100 * time.Millisecond
	_, err = js.UpdateStream(t.Context(), forgetful)
	require.NoError(t, err)
}

// publishAgain publishes an intent whose ID the broker is about to forget.
func publishAgain(t *testing.T, q *queue.Queue, in settle.Intent) {
	t.Helper()
	require.Eventually(t, func() bool {
		p, err := q.Producer.Publish(t.Context(), in)
		return err == nil && p == settle.Stored
	}, time.Minute, 20*time.Millisecond)
}

// pull returns exactly n checked deliveries.
func pull(t *testing.T, q *queue.Queue, n int) []*settle.Delivery {
	t.Helper()
	var got []*settle.Delivery
	for start := time.Now(); len(got) < n && time.Since(start) < time.Minute; {
		require.NoError(t, q.Pull(t.Context(), n-len(got), time.Second, func(ds []*settle.Delivery) { got = append(got, ds...) }))
	}
	require.Len(t, got, n)
	return got
}

// again gives a delivery back without a note, as if its worker had been killed,
// and pulls the redelivery for the given worker.
func again(t *testing.T, d *settle.Delivery, to *queue.Queue) *settle.Delivery {
	t.Helper()
	require.NoError(t, d.ExportAnswer().Nak())
	return pull(t, to, 1)[0]
}

func report(v order.Verdict, h order.History) order.Report {
	h.Attempts++
	return order.Report{End: order.EndAnswer, Verdict: v, Status: 200, History: h, Trail: []order.Attempt{{Verdict: v, Status: 200}}}
}

func settleAs(t *testing.T, q *queue.Queue, d *settle.Delivery, r order.Report) settle.Entry {
	t.Helper()
	entry, err := q.Worker.Settle(t.Context(), d, r, order.Decide(r, order.Facts{}))
	require.NoError(t, err)
	d.Release()
	return entry
}

// lookup reads the last word on an order_no.
func lookup(t *testing.T, q *queue.Queue, no string) *order.Record {
	t.Helper()
	entry, err := q.Ledger.Lookup(t.Context(), no)
	require.NoError(t, err)
	return entry.Record
}

func letterOf(t *testing.T, q *queue.Queue, no string) *settle.Letter {
	t.Helper()
	l, err := q.Ledger.Letter(t.Context(), no)
	require.NoError(t, err)
	return l
}

func requireBalanced(t *testing.T, q *queue.Queue) *books.AuditResult {
	t.Helper()
	a, err := books.Audit(t.Context(), q)
	require.NoError(t, err)
	require.True(t, a.Balanced(), "%+v", a)
	return a
}

// requireDrained waits until every plain ack has arrived and the log is trimmed.
func requireDrained(t *testing.T, q *queue.Queue) {
	t.Helper()
	require.Eventually(t, func() bool {
		_ = q.Trimmer.Trim(t.Context())
		room, err := q.Census.Room(t.Context())
		return err == nil && room.Msgs == 0
	}, time.Minute, 5*time.Millisecond)
}

// requireAcknowledged waits until every plain ack has arrived.
func requireAcknowledged(t *testing.T, q *queue.Queue) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := q.Census.Count(t.Context())
		return err == nil && c.Pending == 0
	}, time.Minute, 5*time.Millisecond)
}
