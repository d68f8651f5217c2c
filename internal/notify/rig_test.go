package notify

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/platform/secret"
	"orderpost/internal/queue"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

var startBroker = queuetest.Start

func openQueue(t testing.TB, s *queuetest.Broker) *queue.Queue { return queuetest.Open(t, s, "notify") }

// ledger writes records as workers do: over the one before.
type ledger struct {
	t    testing.TB
	q    *queue.Queue
	seqs map[string]uint64
	base time.Time
}

func newLedger(t testing.TB, q *queue.Queue) *ledger {
	return &ledger{t: t, q: q, seqs: make(map[string]uint64), base: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
}

// put stores an outcome, or a note where the word is retrying.
func (b *ledger) put(no, word string, change ...func(*order.Record)) {
	b.t.Helper()
	b.base = b.base.Add(time.Second)
	r := &order.Record{OrderNo: no, Word: word, IntentID: "i-" + no, WriteID: b.base.String(), SettledAt: b.base, Settled: 1}
	for _, c := range change {
		c(r)
	}
	seq, err := b.q.Store().PutRecord(b.t.Context(), no, r, b.seqs[no])
	require.NoError(b.t, err)
	b.seqs[no] = seq
}

// got is one event that the receiver took.
type got struct {
	ID   string
	Type string `json:"type"`
	Data Order  `json:"data"`
}

// hookServer is a receiver. answer says what it answers to an event; nil = 204.
type hookServer struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(got) (status int, header http.Header)
	tries  []got
	taken  []got
	bodies []string
}

func newHookServer(t testing.TB) *hookServer {
	e := &hookServer{}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *hookServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	g := got{ID: r.Header.Get("Webhook-Id")}
	bad := json.Unmarshal(body, &g)
	e.mu.Lock()
	defer e.mu.Unlock()
	status, header := http.StatusNoContent, http.Header(nil)
	if e.answer != nil {
		status, header = e.answer(g)
	}
	if bad != nil || r.Method != http.MethodPost {
		status = http.StatusTeapot
	}
	e.tries = append(e.tries, g)
	if status/100 == 2 {
		e.taken, e.bodies = append(e.taken, g), append(e.bodies, string(body))
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
}

func (e *hookServer) answers(f func(got) (int, http.Header)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = f
}

// last returns the last outcome that was taken for each order_no, and all that were taken.
func (e *hookServer) last() (last map[string]string, all []got) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last = make(map[string]string)
	for _, g := range e.taken {
		last[g.Data.OrderNo] = g.Data.Outcome
	}
	return last, append(all, e.taken...)
}

// await waits until the receiver's last outcomes are these.
func (e *hookServer) await(t testing.TB, want map[string]string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		last, _ := e.last()
		for no, outcome := range want {
			require.Equal(c, outcome, last[no], no)
		}
	}, time.Minute, 5*time.Millisecond)
}

func answering(code int) func(got) (int, http.Header) {
	return func(got) (int, http.Header) { return code, nil }
}

func newTestSender(t testing.TB, q *queue.Queue, url string, change ...func(*Config)) *Sender {
	t.Helper()
	c := Config{URL: url, Secret: secret.Text(NewSecret()), Begin: beginOldest}
	for _, f := range change {
		f(&c)
	}
	s, err := NewSender(Options{Config: c, Queue: q, Name: t.Name(), Log: zerolog.Nop()})
	require.NoError(t, err)
	return s
}

// run runs a sender until stop is called.
func run(t testing.TB, s *Sender) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { s.Run(ctx) })
	stop = func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return stop
}

// kept reads what the bucket keeps.
func kept(t testing.TB, q *queue.Queue) (k Kept) {
	t.Helper()
	e, err := q.Bucket().Get(t.Context(), senderKey)
	if !errors.Is(err, queue.ErrNoKey) {
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(e.Value, &k))
	}
	return k
}
