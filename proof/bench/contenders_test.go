package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"orderpost/proof/bench/contender"
)

const someOrders = 300

// field is a broker with orders in its queue.
type field struct {
	url string
	js  jetstream.JetStream
}

func newField(t *testing.T) field {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(10*time.Second))
	b := &broker{replicas: 1, url: s.ClientURL()}
	q, err := b.open(t.Context())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	require.NoError(t, fill(t.Context(), q, 0, someOrders))
	nc, err := nats.Connect(b.url, nats.Timeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return field{b.url, js}
}

func (f field) messages(t *testing.T, stream string) uint64 {
	t.Helper()
	s, err := f.js.Stream(t.Context(), stream)
	require.NoError(t, err)
	return s.CachedInfo().State.Msgs
}

// work runs the usual worker until the test ends.
func (f field) work(t *testing.T, o contender.WorkerOptions) {
	t.Helper()
	o.NATS, o.Stream, o.Consumer, o.InFlight = f.url, intentsStream, poolConsumer, 16
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- contender.RunUsual(ctx, o) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
}

func (f field) untilEmpty(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := f.js.Consumer(t.Context(), intentsStream, poolConsumer)
		require.NoError(t, err)
		info := c.CachedInfo()
		return info.NumPending == 0 && info.NumAckPending == 0
	}, 30*time.Second, 10*time.Millisecond)
}

// TestUsualWorker: it posts each order once, and has stored all outcomes when the
// queue is empty.
func TestUsualWorker(t *testing.T) {
	f := newField(t)
	require.NoError(t, (&broker{replicas: 1, url: f.url}).makeOutcomes(t.Context()))
	a := serveSink(t)
	f.work(t, contender.WorkerOptions{URL: a.url, Outcomes: outcomesPrefix})
	f.untilEmpty(t)
	seen, err := a.seen(t.Context(), false)
	require.NoError(t, err)
	require.EqualValues(t, someOrders, seen.Orders)
	require.Zero(t, seen.Refused)
	require.EqualValues(t, someOrders, f.messages(t, outcomesStream))
}

func serveSink(t *testing.T) *api {
	t.Helper()
	addrs, err := freeAddrs(1)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- contender.RunSink(ctx, contender.SinkOptions{Addr: addrs[0]}) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })
	a := &api{url: "http://" + addrs[0], seenURL: "http://" + addrs[0] + "/seen"}
	require.Eventually(t, func() bool { _, err := a.seen(t.Context(), false); return err == nil }, time.Minute, 5*time.Millisecond)
	return a
}

// TestOutcomesComeFirst: without a stream for the outcomes no order is
// acknowledged, a failing API gets the order again, and a refusal is an
// outcome.
func TestOutcomesComeFirst(t *testing.T) {
	f := newField(t)
	var mu sync.Mutex
	posts := map[string]int{}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			OrderNo string `json:"order_no"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // an order without a number shows below
		mu.Lock()
		posts[body.OrderNo]++
		first := posts[body.OrderNo] == 1
		mu.Unlock()
		switch {
		case body.OrderNo == contender.OrderNo(1) && first:
			w.WriteHeader(http.StatusBadGateway)
		case body.OrderNo == contender.OrderNo(2):
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
	}))
	t.Cleanup(api.Close)
	f.work(t, contender.WorkerOptions{URL: api.URL, Outcomes: outcomesPrefix})
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(posts) >= 2*16 }, 30*time.Second, time.Millisecond)
	require.EqualValues(t, someOrders, f.messages(t, intentsStream))

	require.NoError(t, (&broker{replicas: 1, url: f.url}).makeOutcomes(t.Context()))
	f.untilEmpty(t)
	require.GreaterOrEqual(t, f.messages(t, outcomesStream), uint64(someOrders))
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, posts, someOrders)
	require.Greater(t, posts[contender.OrderNo(1)], 1)
	s, err := f.js.Stream(t.Context(), outcomesStream)
	require.NoError(t, err)
	for no, status := range map[string]string{contender.OrderNo(1): `"status":200`, contender.OrderNo(2): `"status":422`} {
		msg, err := s.GetLastMsgForSubject(t.Context(), outcomesPrefix+no)
		require.NoError(t, err)
		require.Contains(t, string(msg.Data), status)
	}
}
