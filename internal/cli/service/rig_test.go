package service_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/cli"
	"orderpost/internal/cli/service"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/order/schema"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
	"orderpost/internal/settle"
	"orderpost/internal/submit"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/queuetest"
	"orderpost/internal/worker"
)

// ackWait is how long a claim lasts in most tests. A test in which no claim may
// lapse, however slow the machine is, sets rig.ackWait to more.
const ackWait = time.Second

// rig is a broker and an API, which outlive the workers of a test.
type rig struct {
	t       *testing.T
	broker  *queuetest.Broker
	api     *sandbox.Server
	url     string
	policy  order.Policy
	ackWait time.Duration
	schema  *schema.Schema  // of the workers that are started from now on; may be nil
	orders  worker.Observer // of the workers that are started from now on; may be nil
}

func newRig(t *testing.T, policy order.Policy, change ...func(*sandbox.Settings)) *rig {
	t.Helper()
	r := &rig{t: t, policy: policy, broker: queuetest.Start(t), ackWait: ackWait}
	var err error
	cfg := sandbox.Config{Keys: map[string]string{"key": "secret"}, Logger: zerolog.Nop()}
	for _, c := range change {
		c(&cfg.Settings)
	}
	r.api, err = sandbox.New(cfg)
	require.NoError(t, err)
	r.url, err = r.api.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.api.Close() })
	return r
}

func (r *rig) queueConfig(name string) queue.Config {
	cfg := r.broker.Config(name)
	cfg.Living = fleet.Living
	cfg.AckWait, cfg.AttemptTimeout = r.ackWait, r.ackWait/2
	return cfg
}

// life is one worker, from its start to its end.
type life struct {
	q         *queue.Queue
	pool      *worker.Pool
	submitter *submit.Submitter
	cut       *netcut.Dialer
	stop      context.CancelFunc
	ended     chan error
}

// start runs a worker; it is stopped at the end of the test.
func (r *rig) start(name string, cut *netcut.Dialer, rt http.RoundTripper, change ...func(*submit.Config)) *life {
	r.t.Helper()
	l := &life{cut: cut, ended: make(chan error, 1)}
	l.q = queuetest.Connect(r.t, r.queueConfig(name), nats.SetCustomDialer(cut), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	signer, err := service.NewSigner("secret")
	require.NoError(r.t, err)
	cfg := submitConfig(r.t, r.url)
	cfg.Concurrency, cfg.OnUnsure, cfg.RequestTimeout, cfg.KeyReload = 8, r.policy, r.ackWait/2, 0
	cfg.RetryBase, cfg.RetryMax, cfg.RetrySubmissionAttempts = time.Millisecond, time.Millisecond, 1
	cfg.RetryDelayBase, cfg.RetryDelayMax, cfg.RefusalQuiet = 10*time.Millisecond, 10*time.Millisecond, 5*time.Millisecond
	for _, c := range change {
		c(&cfg)
	}
	l.submitter, err = submit.New(cfg, submit.Deps{Keys: staticKeys{{Key: "key", Signer: signer}}, Log: zerolog.Nop(), Sender: through(rt, cfg), Schema: r.schema})
	require.NoError(r.t, err)
	l.pool = worker.NewPool(worker.PoolOptions{Queue: l.q, Submitter: l.submitter, Concurrency: cfg.Concurrency, Policy: r.policy,
		DrainTimeout: time.Second, SettleGrace: time.Second, Log: zerolog.Nop(), Observer: r.orders})
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() { l.ended <- l.pool.Run(ctx) }()
	r.t.Cleanup(l.end)
	return l
}

func (l *life) end() {
	l.stop()
	l.submitter.Close()
	l.cut.Thaw()
	<-l.ended
	l.q.Close()
}

func (r *rig) publish(q *queue.Queue, nos ...string) {
	r.t.Helper()
	for _, no := range nos {
		p, err := q.Producer.Publish(r.t.Context(), queuetest.Intent(no, "i:"+no))
		require.NoError(r.t, err)
		require.Equal(r.t, settle.Stored, p)
	}
}

// settled waits until nothing is pending, and checks the books: the streams
// among themselves, and against the API's ledger.
func (r *rig) settled(q *queue.Queue) map[string]*order.Record {
	r.t.Helper()
	queuetest.Drained(r.t, q)
	audit, err := audit.Audit(r.t.Context(), q)
	require.NoError(r.t, err)
	require.True(r.t, audit.Balanced(), "%+v", audit)
	out := make(map[string]*order.Record)
	require.NoError(r.t, queue.EachRecord(r.t.Context(), q, func(rec *order.Record) error {
		out[rec.OrderNo] = rec
		created := r.api.Created(rec.OrderNo)
		require.LessOrEqual(r.t, created, 1, "%s was created twice", rec.OrderNo)
		switch rec.Outcome().Created() {
		case "yes":
			require.Equal(r.t, 1, created, "%s is recorded as %s and does not exist", rec.OrderNo, rec.Word)
		case "no":
			require.Zero(r.t, created, "%s is recorded as %s and exists", rec.OrderNo, rec.Word)
		}
		return nil
	}))
	return out
}

// attempts is how often the API was asked about an order.
func (r *rig) attempts(no string) int {
	e, _ := r.api.Lookup(no)
	return e.Attempts
}

var errNobody = errors.New("connection refused (by the test)")

// counted counts the orders that a worker posts.
func counted(n *atomic.Int64) transport {
	return func(req *http.Request) (*http.Response, error) {
		n.Add(1)
		return http.DefaultTransport.RoundTrip(req)
	}
}

// submitConfig returns the submitter's settings in an environment that sets only the
// API's URL.
func submitConfig(t testing.TB, url string) (cfg submit.Config) {
	t.Helper()
	require.NoError(t, cli.ReadEnv(&cfg, map[string]string{"ORDERPOST_API_URL": url}))
	cfg.Tuning = submit.DefaultTuning()
	return cfg
}

// staticKeys is a submit.KeySource that never changes.
type staticKeys []submit.KeyPair

// Pairs implements submit.KeySource.
func (k staticKeys) Pairs() ([]submit.KeyPair, error) { return k, nil }
