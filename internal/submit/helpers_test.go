package submit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/order/schema"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/gate"
	"orderpost/internal/submit/http1"
	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) {
	patient.Bubbles()
	patient.Main(m)
}

const (
	keyA = "AKtest-first-key-000A"
	keyB = "AKtest-second-key-00B"
)

// stubSigner stamps like the real one and signs with a word; the real one is
// used in the tests of package submit_test.
type stubSigner struct{ word string }

func (s *stubSigner) Sign(dst []byte, o *order.Order, ms int64) ([]byte, string, error) {
	return o.AppendBody(dst, ms), s.word, nil
}

func newOrder(t testing.TB, no string) *order.Order {
	t.Helper()
	o, err := order.Parse(fmt.Appendf(nil, `{"order_no":%q,"timeout":5}`, no))
	require.NoError(t, err)
	return o
}

// call is one request as the fake API sees it.
type call struct {
	at        time.Time
	key       string
	signature string
	orderNo   string
	stamp     int64
	path      string // of a lookup
	n         int    // of this kind, from 1
}

// reply is what the fake API does. The zero value answers 200 {"code":0}.
type reply struct {
	status int
	body   string
	header map[string]string
	after  time.Duration // before the answer, or the failure
	err    error         // instead of an answer
	unread bool          // with err: there was no connection
	cut    error         // ends the answer's body
	hang   bool          // no answer at all: until the request's time is up
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}

// fakeAPI is a [Sender] in simulated time.
type fakeAPI struct {
	handle  func(c call) reply // of orders
	account func(c call) reply // of GET /v1/account; nil answers 200
	look    func(c call) reply // of lookups; nil answers 500
	timeout time.Duration      // of one request

	mu       sync.Mutex
	posts    []call
	gets     []call
	looked   []call
	inflight int
	most     int // most posts at the same time
}

// Post implements [Sender].
func (f *fakeAPI) Post(ctx context.Context, o http1.Order) http1.Exchange {
	parsed, err := order.Parse(o.Body)
	if err != nil {
		panic(err)
	}
	c := call{at: time.Now(), key: o.Key, signature: o.Signature, orderNo: parsed.OrderNo()}
	c.stamp, _ = parsed.Timestamp()
	r := f.answer(&f.posts, &c, f.handle)
	f.count(1)
	defer f.count(-1)
	x := f.exchange(ctx, r)
	if x.Err != nil && x.Answer.Status == 0 && !r.unread {
		x.Phase = http1.PhaseSent
	}
	x.Answer.Examine(o.No)
	return x
}

// Get implements [Sender].
func (f *fakeAPI) Get(ctx context.Context, key string) http1.Exchange {
	c := call{at: time.Now(), key: key}
	return f.exchange(ctx, f.answer(&f.gets, &c, f.account))
}

// Look implements [Sender].
func (f *fakeAPI) Look(ctx context.Context, key, orderNo, path string) http1.Exchange {
	c := call{at: time.Now(), key: key, path: path}
	handle := f.look
	if handle == nil {
		handle = func(call) reply { return reply{status: 500} }
	}
	x := f.exchange(ctx, f.answer(&f.looked, &c, handle))
	x.Answer.Examine(orderNo)
	return x
}

// answer lets handle answer the call, and adds that to the calls of its kind.
func (f *fakeAPI) answer(calls *[]call, c *call, handle func(c call) reply) (r reply) {
	f.mu.Lock()
	c.n = len(*calls) + 1
	f.mu.Unlock()
	if handle != nil {
		r = handle(*c)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	*calls = append(*calls, *c)
	return r
}

func (f *fakeAPI) count(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inflight += n
	f.most = max(f.most, f.inflight)
}

// exchange lets the time of a reply pass.
func (f *fakeAPI) exchange(ctx context.Context, r reply) (x http1.Exchange) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	x.Sent = time.Now()
	defer func() { x.Ended = time.Now() }()
	var after <-chan time.Time
	if !r.hang {
		after = time.After(r.after)
	}
	select {
	case <-after:
		x.Err = r.err
	case <-ctx.Done():
		x.Err = ctx.Err()
	}
	if x.Err == nil {
		x.Phase, x.Answer, x.Err = http1.PhaseDone, r.answer(), r.cut
	}
	return x
}

func (r reply) answer() answer.Answer {
	a := answer.Answer{Status: r.status, Header: http.Header{}, Body: []byte(r.body), Complete: r.cut == nil}
	if r.status == 0 {
		a.Status = http.StatusOK
	}
	if r.status == 0 && r.body == "" {
		a.Body = []byte(`{"code":0}`)
	}
	for k, v := range r.header {
		a.Header.Set(k, v)
	}
	return a
}

func (f *fakeAPI) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	var at []time.Time
	for _, c := range f.posts {
		at = append(at, c.at)
	}
	return at
}

func (f *fakeAPI) calls() (posts, gets int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.posts), len(f.gets)
}

// rig is a Submitter on a fake API.
type rig struct {
	*Submitter
	t   testing.TB
	api *fakeAPI
	log *patient.Buffer
}

// DefaultConfig returns the settings of an environment that sets only the base URL,
// with the usual tuning.
func DefaultConfig(baseURL string) (cfg Config) {
	err := env.ParseWithOptions(&cfg, env.Options{Prefix: "ORDERPOST_", Environment: map[string]string{"ORDERPOST_API_URL": baseURL}})
	if err != nil {
		panic(err)
	}
	cfg.Tuning = DefaultTuning()
	return cfg
}

// StaticKeys is a KeySource that never changes.
type StaticKeys []KeyPair

// Pairs implements [KeySource].
func (k StaticKeys) Pairs() ([]KeyPair, error) { return k, nil }

func testConfig(change func(*Config)) Config {
	cfg := DefaultConfig("https://api.test")
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func newRig(t testing.TB, handle func(c call) reply, change func(*Config)) *rig {
	t.Helper()
	return newRigWith(t, &fakeAPI{handle: handle}, StaticKeys{{Key: keyA, Signer: &stubSigner{"a"}}}, change)
}

func newRigWith(t testing.TB, api *fakeAPI, keys KeySource, change func(*Config)) *rig {
	t.Helper()
	return newSchemaRig(t, api, keys, nil, change)
}

func newSchemaRig(t testing.TB, api *fakeAPI, keys KeySource, schema *schema.Schema, change func(*Config)) *rig {
	t.Helper()
	log := &patient.Buffer{}
	cfg := testConfig(change)
	api.timeout = cfg.RequestTimeout
	s, err := New(cfg, Deps{Keys: keys, Schema: schema, Log: zerolog.New(log).Level(zerolog.InfoLevel), Sender: api})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return &rig{Submitter: s, t: t, api: api, log: log}
}

// one submits one order and waits.
func (r *rig) one(no string) order.Report {
	return *r.Submit(context.Background(), &order.Submission{Order: newOrder(r.t, no)})
}

func decide(r order.Report, f order.Facts) order.Settlement { return order.Decide(&r, f) }

// many submits n orders at once; the reports come in the order of the numbers.
func (r *rig) many(prefix string, n int) []order.Report {
	reports := make([]order.Report, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { reports[i] = r.one(fmt.Sprintf("%s-%d", prefix, i)) })
	}
	wg.Wait()
	return reports
}

// warm gets the ramp out of the way: as many attempts as it takes are accepted.
func (r *rig) warm() {
	r.gate.SetLimit(0)
	for range r.cfg.Concurrency {
		p, err := r.gate.Enter(r.t.Context(), false, nil)
		require.NoError(r.t, err)
		p.Release(gate.Signal{Verdict: order.Accepted})
	}
	r.gate.SetLimit(r.cfg.RateLimit)
	require.Equal(r.t, r.cfg.Concurrency, r.gate.State().Limit)
}

func ends(reports []order.Report) map[order.End]int {
	m := map[order.End]int{}
	for _, r := range reports {
		m[r.End]++
	}
	return m
}

func refuse(call) reply { return reply{status: 422, body: `{"message":"no"}`} }
func accept(call) reply { return reply{} }
func broken(call) reply { return reply{status: 503} }
