package submit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"orderpost/internal/order"
	"orderpost/internal/orderschema"
	"orderpost/internal/patient"
	"orderpost/internal/submit/gate"
)

func TestMain(m *testing.M) {
	if scheme := os.Getenv(benchAPI); scheme != "" {
		serveBenchAPI(scheme)
		return
	}
	patient.Bubbles()
	patient.Main(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*TCPDialer).tcpAddrsClean")) // of its own client, in the benchmark
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
	at       time.Time
	key      string
	account  bool
	orderNo  string
	stamp    int64
	n        int // of this kind, from 1
	req      *http.Request
	taken    bool // the body was read
	bodyText string
}

// reply is what the fake API does. The zero value answers 200 {"code":0}.
type reply struct {
	status int
	body   string
	header map[string]string
	after  time.Duration // before the answer, or the failure
	err    error         // instead of an answer
	unread bool          // with err: the body was not read before it
	cut    error         // ends the answer's body
	hang   bool          // no answer at all: until the request's context ends
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("connection reset by peer")}

// fakeAPI is a transport in simulated time.
type fakeAPI struct {
	handle  func(c call) reply // of orders
	account func(c call) reply // of GET /v1/account; nil answers 200

	mu       sync.Mutex
	posts    []call
	gets     []call
	inflight int
	most     int // most posts at the same time
}

func (f *fakeAPI) RoundTrip(req *http.Request) (*http.Response, error) {
	c := call{at: time.Now(), key: req.Header.Get("X-Api-Key"), account: req.Method == http.MethodGet, req: req}
	r := f.begin(&c)
	defer f.done(c)
	if r.hang {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	select {
	case <-time.After(r.after):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.response(req), nil
}

func (f *fakeAPI) begin(c *call) reply {
	var r reply
	handle := f.handle
	if c.account {
		handle = f.account
	}
	f.mu.Lock()
	if c.account {
		c.n = len(f.gets) + 1
	} else {
		c.n = len(f.posts) + 1
	}
	f.mu.Unlock()
	if handle != nil {
		if !c.account {
			c.peek()
		}
		r = handle(*c)
	}
	if !c.account && !r.unread {
		c.read()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.account {
		f.gets = append(f.gets, *c)
		return r
	}
	f.posts = append(f.posts, *c)
	f.inflight++
	f.most = max(f.most, f.inflight)
	return r
}

func (f *fakeAPI) done(c call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !c.account {
		f.inflight--
	}
}

// peek looks at the body as a test, not as a transport: it is not taken.
func (c *call) peek() {
	b := c.req.Body.(*onceBody)
	b.mu.Lock()
	c.bodyText = string(b.data)
	b.mu.Unlock()
	o, err := order.Parse([]byte(c.bodyText))
	if err != nil {
		panic(err)
	}
	c.orderNo = o.OrderNo()
	c.stamp, _ = o.Timestamp()
}

func (c *call) read() {
	if c.bodyText == "" {
		c.peek()
	}
	if _, err := io.ReadAll(c.req.Body); err != nil {
		panic(err)
	}
	c.taken = true
}

func (r reply) response(req *http.Request) *http.Response {
	status, body := r.status, r.body
	if status == 0 {
		status = http.StatusOK
	}
	if r.status == 0 && body == "" {
		body = `{"code":0}`
	}
	h := http.Header{}
	for k, v := range r.header {
		h.Set(k, v)
	}
	var rd io.Reader = bytes.NewReader([]byte(body))
	if r.cut != nil {
		rd = io.MultiReader(rd, failingReader{r.cut})
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(rd), ContentLength: -1, Request: req}
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

func (f *fakeAPI) times() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	var at []time.Time
	for _, c := range f.posts {
		at = append(at, c.at)
	}
	return at
}

func (f *fakeAPI) count() (posts, gets int) {
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

func newSchemaRig(t testing.TB, api *fakeAPI, keys KeySource, schema *orderschema.Schema, change func(*Config)) *rig {
	t.Helper()
	log := &patient.Buffer{}
	s, err := New(testConfig(change), Deps{Keys: keys, Schema: schema, Log: zerolog.New(log).Level(zerolog.InfoLevel), Transport: api})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return &rig{Submitter: s, t: t, api: api, log: log}
}

// one submits one order and waits.
func (r *rig) one(no string) order.Report {
	return r.Submit(context.Background(), order.Submission{Order: newOrder(r.t, no)})
}

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

var discardLog = log.New(io.Discard, "", 0)
