package service_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli/service"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
	"orderpost/internal/worker"
)

// member is a worker that takes part in the fleet.
type member struct {
	q         *queue.Queue
	control   *fleet.Control
	submitter *submit.Submitter
	pool      *worker.Pool
	cut       *netcut.Dialer
	posts     atomic.Int64
	stop      context.CancelFunc // the pool
	leave     context.CancelFunc // the fleet
	ended     chan struct{}
}

// join starts a worker as the program does: its part in the fleet first.
func (r *rig) join(name string, limit float64, rt http.RoundTripper, change ...func(*submit.Config)) *member {
	r.t.Helper()
	m := &member{cut: &netcut.Dialer{}, ended: make(chan struct{})}
	cfg := r.queueConfig(name)
	cfg.AckWait, cfg.AttemptTimeout = 5*time.Second, time.Second
	m.q = queuetest.Connect(r.t, cfg, nats.SetCustomDialer(m.cut))
	m.control = fleet.New(m.q)
	signer, err := service.NewSigner("secret")
	require.NoError(r.t, err)
	if rt == nil {
		rt = counted(&m.posts)
	}
	sc := submitConfig(r.t, r.url)
	sc.Concurrency, sc.KeyReload, sc.RateLimit = 16, 0, limit
	sc.BreakerOpen, sc.BreakerMin, sc.RetrySubmissionAttempts = 500*time.Millisecond, 4, 2
	sc.RetryDelayBase, sc.RetryDelayMax = 10*time.Millisecond, 5*time.Second
	for _, c := range change {
		c(&sc)
	}
	m.submitter, err = submit.New(sc, submit.Deps{Keys: staticKeys{{Key: "key", Signer: signer}}, Log: zerolog.Nop(), Sender: through(rt, sc)})
	require.NoError(r.t, err)
	m.pool = worker.NewPool(worker.PoolOptions{Queue: m.q, Submitter: m.submitter, Concurrency: sc.Concurrency,
		DrainTimeout: time.Second, SettleGrace: time.Second, Log: zerolog.Nop()})
	part := fleet.NewMember(fleet.Options{Control: m.control, Gate: m.submitter.Gate(), Name: name, Limit: limit, Log: zerolog.Nop(), Describe: func() fleet.Presence {
		s := m.submitter.Gate().State()
		return fleet.Presence{Since: time.Now(), InFlight: m.pool.InFlight(), Open: s.Open, Reasons: s.Reasons}
	}})
	m.run(part)
	r.t.Cleanup(m.end)
	return m
}

func (m *member) run(part *fleet.Member) {
	working, stop := context.WithCancel(context.Background())
	taking, leave := context.WithCancel(context.Background())
	m.stop, m.leave = stop, leave
	go func() {
		defer close(m.ended)
		left := make(chan struct{})
		go func() { part.Run(taking); close(left) }()
		_ = m.pool.Run(working)
		leave()
		<-left
	}()
}

// end stops the worker. After a kill that finds no broker to leave.
func (m *member) end() {
	m.stop()
	<-m.ended
	m.submitter.Close()
	m.q.Close()
}

// kill cuts the worker off in the middle of its work.
func (m *member) kill() {
	m.cut.Kill()
	m.submitter.Close()
	m.stop()
}

func (m *member) share() float64 { return m.submitter.Gate().State().Rate }

func shares(want float64, members ...*member) func() bool {
	return func() bool {
		return !slices.ContainsFunc(members, func(m *member) bool { s := m.submitter.Gate().State(); return s.Rate != want || !s.Open })
	}
}

func (r *rig) eventually(condition func() bool, what string) {
	r.t.Helper()
	require.Eventually(r.t, condition, patience, 5*time.Millisecond, what)
}

func many(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return out
}

func (r *rig) created() int { return int(r.api.Ledger().OrdersCreated) }

// TestR12FiveWorkersOneLimit: five workers share a limit; one is killed and two
// join under load. The API counts.
func TestR12FiveWorkersOneLimit(t *testing.T) {
	t.Parallel()
	const limit = 60
	r := newRig(t, order.Resubmit)
	stalled := patient.WatchStalls(t)
	var all []*member
	for i := range 5 {
		all = append(all, r.join(fmt.Sprintf("w%d", i), limit, nil))
	}
	r.publish(all[0].q, many("A", 860)...)
	r.eventually(shares(limit/5., all...), "five shares")
	r.eventually(func() bool { return r.created() >= 150 }, "orders flow")

	all[4].kill()
	rest := all[:4]
	killed := time.Now()
	r.eventually(shares(limit/4., rest...), "four shares after one was killed")
	t.Logf("four shares %s after the kill", time.Since(killed).Round(10*time.Millisecond))

	joined := time.Now()
	rest = append(rest, r.join("w5", limit, nil), r.join("w6", limit, nil))
	r.eventually(shares(limit/6., rest...), "six shares after two joined")
	t.Logf("six shares %s after the joining", time.Since(joined).Round(10*time.Millisecond))
	r.publish(all[0].q, many("B", 240)...) // for the new ones, however long the joining took
	r.eventually(func() bool { return r.created() == 1100 }, "all orders")
	for i, m := range rest {
		require.Positive(t, m.posts.Load(), "worker %d of the rest sent nothing", i)
	}
	var most int64
	for _, s := range r.api.Ledger().PerSecond {
		most = max(most, s.Creates)
	}
	t.Logf("the busiest second had %d requests at a limit of %d", most, limit)
	// A second of the API's clock may hold one token of each worker's burst, and the
	// requests that a stall of this machine held back.
	held := int64(math.Ceil(stalled().Seconds() * limit))
	require.LessOrEqual(t, most, int64(limit+len(rest))+held, "with %d requests held back by the machine", held)
	r.settled(all[0].q)
}

// TestFleetHoldEndsByItself after its time.
func TestFleetHoldEndsByItself(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit)
	a := r.join("a", 0, nil)
	require.NoError(t, a.control.SetHold(t.Context(), fleet.Hold{By: "anna", Since: time.Now(), For: 5 * time.Second}))
	r.eventually(func() bool { return !a.submitter.Gate().Open() }, "held")
	r.publish(a.q, "A-1")
	r.eventually(func() bool { return r.created() == 1 }, "goes on")
}

// TestFleetThrottle: what the API tells one worker holds all of them.
func TestFleetThrottle(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit)
	var once atomic.Bool
	told := make(chan time.Time, 1)
	a := r.join("a", 0, transport(func(req *http.Request) (*http.Response, error) {
		if once.CompareAndSwap(false, true) {
			told <- time.Now()
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"5"}}, Body: io.NopCloser(strings.NewReader("")), Request: req, ProtoMajor: 1, ProtoMinor: 1}, nil
		}
		return http.DefaultTransport.RoundTrip(req)
	}))
	require.NoError(t, a.control.SetHold(t.Context(), fleet.Hold{By: "anna", Since: time.Now()}))
	r.eventually(func() bool { return !a.submitter.Gate().Open() }, "held")
	b := r.join("b", 0, nil)
	r.eventually(func() bool { return len(b.submitter.Gate().State().Reasons) == 1 && !b.submitter.Gate().Open() }, "held")
	require.NoError(t, a.control.SetLimit(t.Context(), &fleet.Limit{PerSecond: 40}))
	r.publish(a.q, many("A", 60)...)
	require.NoError(t, a.control.Resume(t.Context(), "anna"))
	at := <-told
	throttled := func() bool {
		return slices.ContainsFunc(b.submitter.Gate().State().Blocks, func(bl gate.BlockState) bool { return bl.Name == gate.BlockThrottle })
	}
	r.eventually(throttled, "the other one waits, too, before the five seconds are over")
	t.Logf("the other worker was shut %s after the 429", time.Since(at).Round(time.Millisecond))
	r.eventually(func() bool { return a.submitter.Gate().Open() && b.submitter.Gate().Open() }, "both go on")
	require.Greater(t, time.Since(at), 4900*time.Millisecond, "the wait that the API asked for was cut short")
	r.eventually(func() bool { return r.created() == 60 }, "all orders")
}

// TestR12JoinerWaits: a worker that is present and does not make room keeps a
// joiner from sending, until it has expired.
func TestR12JoinerWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit)
	cfg := r.queueConfig("ghost")
	cfg.AckWait = 5 * time.Second // as that of the others
	ghost := queuetest.Connect(t, cfg)
	began := time.Now()
	require.NoError(t, fleet.New(ghost).Appear(t.Context(), fleet.Presence{ID: "ghost", Worker: "ghost", Limit: 20, Joined: true}))
	r.publish(ghost, many("A", 10)...)
	m := r.join("late", 0, nil)
	r.eventually(func() bool { return m.posts.Load() > 0 }, "it sends in the end")
	require.GreaterOrEqual(t, time.Since(began), fleet.PresenceTerm, "it did not wait for the present worker")
	r.eventually(func() bool { return m.share() == 0 }, "the limit of one that is gone counts no more")
	r.settled(ghost)
}

// TestFleetWithoutAPI: each worker asks the API for itself, whatever becomes of the others,
// and people are told one reason.
func TestFleetWithoutAPI(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit)
	var down atomic.Bool
	down.Store(true)
	var asked [3]atomic.Int64
	var all []*member
	for i := range asked {
		all = append(all, r.join(fmt.Sprintf("w%d", i), 0, transport(func(req *http.Request) (*http.Response, error) {
			if down.Load() {
				asked[i].Add(1)
				return nil, errNobody
			}
			return http.DefaultTransport.RoundTrip(req)
		})))
	}
	r.publish(all[0].q, many("A", 200)...)
	r.eventually(func() bool {
		return !slices.ContainsFunc(all, func(m *member) bool { return !m.submitter.Gate().Stands(gate.BlockBreaker) })
	}, "all gates are closed")
	var told []string
	r.eventually(func() bool {
		workers, err := all[0].control.Workers(t.Context())
		require.NoError(t, err)
		told = fleet.Reasons(workers)
		return !slices.ContainsFunc(workers, func(p fleet.Presence) bool { return p.Open })
	}, "all say so")
	require.Len(t, told, 1)
	require.Contains(t, told[0], gate.APIFails)
	for i := range asked {
		then := asked[i].Load()
		r.eventually(func() bool { return asked[i].Load() > then }, "each asks for itself")
	}
	all[0].kill()
	down.Store(false)
	r.eventually(func() bool { return r.created() == 200 }, "the others find that the API is back")
	r.eventually(func() bool {
		return !slices.ContainsFunc(all[1:], func(m *member) bool { return !m.submitter.Gate().Open() })
	}, "all go on")
}

// TestFleetHoldThatCannotBeRead holds, until a person resumes: it may say that
// nobody must send.
func TestFleetHoldThatCannotBeRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, order.Resubmit)
	a := r.join("a", 0, nil)
	r.eventually(a.submitter.Gate().Open, "open")
	_, err := r.broker.JetStream(t).Publish(t.Context(), "$KV.ORDERPOST.fleet.hold", []byte("please stop"))
	require.NoError(t, err)
	r.eventually(func() bool {
		reasons := a.submitter.Gate().State().Reasons
		return len(reasons) == 1 && strings.Contains(reasons[0], "fleet.hold cannot be read")
	}, "held")
	r.publish(a.q, "A-1")
	require.NoError(t, a.control.Resume(t.Context(), "anna"))
	r.eventually(func() bool { return r.created() == 1 }, "goes on")
	r.settled(a.q)
}
