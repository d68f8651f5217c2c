package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/settle"
)

// told collects what a patient queue tells the user.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (l *told) tell(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
}

func (l *told) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines...)
}

// patientQueue opens a command's queue on the embedded broker of a data folder.
func patientQueue(t *testing.T, dir string, wait time.Duration) (*Queue, *told) {
	t.Helper()
	said := &told{}
	cfg := DefaultConfig()
	cfg.Name, cfg.BrokerWait, cfg.Tell = "command", wait, said.tell
	cfg.Locate = func() (string, string, error) {
		end, err := embedded.ReadEndpoint(dir)
		return end.URL, end.Token, err
	}
	q, err := Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	return q, said
}

// furnished fills a broker with an intent, a result and a letter of each kind.
func furnished(t *testing.T, dir string) *embedded.Server {
	t.Helper()
	s := startBrokerIn(t, dir)
	q := openQueue(t, s, "w1")
	for _, r := range q.PublishMany(t.Context(), []settle.Intent{intent("R-1", "b:1"), intent("R-2", "b:2"), intent("U-1", "b:3")}) {
		require.NoError(t, r.Err)
	}
	refuse := order.Report{End: order.EndAnswer, Verdict: order.Rejected, Status: 422, Final: true, Reason: "refused"}
	doubt := order.Report{End: order.EndTotalBudget, Verdict: order.Unsure, Reason: "no answer", History: order.History{Unsure: true, Attempts: 3}}
	settleAll(t, q, 3, func(d *settle.Delivery) order.Report {
		if d.OrderNo() == "U-1" {
			return doubt
		}
		return refuse
	})
	for _, r := range q.PublishMany(t.Context(), []settle.Intent{intent("P-1", "p:1"), intent("P-2", "p:2")}) {
		require.NoError(t, r.Err)
	}
	_, err := q.Bucket().Swap(t.Context(), "import.march", 1, 0)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		c, err := q.Census.Count(t.Context())
		return err == nil && c.Pending == 2 && c.Letters == 3 && q.Trimmer.Trim(t.Context()) == nil
	}, time.Minute, 5*time.Millisecond)
	requireStored(t, q, 2)
	q.Close()
	return s
}

var acceptance = order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200}

// settleAll pulls n orders and settles each by its report.
func settleAll(t *testing.T, q *Queue, n int, report func(*settle.Delivery) order.Report) {
	t.Helper()
	for n > 0 {
		require.NoError(t, q.Pull(t.Context(), n, 5*time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				end := report(d)
				_, err := q.Worker.Settle(context.Background(), d, &end, order.Decide(&end, order.Facts{}))
				require.NoError(t, err)
				d.Release()
				n--
			}
		}))
	}
}

// requests are all requests that commands make, some of them through package
// books.
var requests = []struct {
	name string
	do   func(ctx context.Context, q *Queue) error
}{
	{"Count", func(ctx context.Context, q *Queue) error { _, err := q.Census.Count(ctx); return err }},
	{"Lookup", func(ctx context.Context, q *Queue) error { _, err := q.Ledger.Lookup(ctx, "R-1"); return err }},
	{"Letter", func(ctx context.Context, q *Queue) error { _, err := q.Ledger.Letter(ctx, "R-1"); return err }},
	{"IsPending", func(ctx context.Context, q *Queue) error { _, err := q.Ledger.IsPending(ctx, "P-1"); return err }},
	{"Bucket.Swap", func(ctx context.Context, q *Queue) error {
		e, err := q.Bucket().Get(ctx, "import.march")
		if err == nil {
			_, err = q.Bucket().Swap(ctx, e.Key, 2, e.Revision)
		}
		return err
	}},
	{"Bucket.Walk", func(ctx context.Context, q *Queue) error {
		var keys []string
		err := q.Bucket().Walk(ctx, "import.", func(e Entry) error { keys = append(keys, e.Key); return nil })
		if err == nil && len(keys) != 1 {
			err = fmt.Errorf("%v", keys)
		}
		return err
	}},
	{"Stream.State", func(ctx context.Context, q *Queue) error { _, err := q.Results().State(ctx); return err }},
	{"Stream.Walk", func(ctx context.Context, q *Queue) error {
		return q.Letters().Walk(ctx, 1, ToTheEnd, func([]*settle.Message) error { return nil })
	}},
	{"Stream.Last", func(ctx context.Context, q *Queue) error {
		return q.Intents().Last(ctx, []string{"R-1", "P-1", "nobody"}, func(int, *settle.Message) {})
	}},
	{"Bucket.Walk", func(ctx context.Context, q *Queue) error {
		return q.bucket.Walk(ctx, "fleet.", func(Entry) error { return nil })
	}},
	{"Bucket.Last", func(ctx context.Context, q *Queue) error { _, err := q.bucket.Last(ctx, "fleet.>"); return err }},
	{"Stream.Peek", func(ctx context.Context, q *Queue) error {
		_, err := q.Results().Peek(ctx, []string{"R-1", "P-1", "nobody"})
		return err
	}},
	{"AckFloor", func(ctx context.Context, q *Queue) error { _, err := q.AckFloor(ctx); return err }},
	{"Inspect", func(ctx context.Context, q *Queue) error { _, err := q.Topology.Inspect(ctx); return err }},
	{"MakeLost", func(ctx context.Context, q *Queue) error { _, err := q.Topology.MakeLost(ctx); return err }},
	{"Bucket.Put", func(ctx context.Context, q *Queue) error { return q.bucket.Put(ctx, "fleet.hold", "") }},
	{"Bucket.Delete", func(ctx context.Context, q *Queue) error { return q.bucket.Delete(ctx, "fleet.limit", 0) }},
	{"Bucket.Erase", func(ctx context.Context, q *Queue) error { return q.bucket.Erase(ctx, "fleet.none") }},
	{"PublishMany", func(ctx context.Context, q *Queue) error {
		var errs []error
		for _, r := range q.PublishMany(ctx, []settle.Intent{intent("N-1", "n:1"), intent("N-2", "n:2"), intent("N-1", "n:1")}) {
			errs = append(errs, r.Err)
		}
		return errors.Join(errs...)
	}},
	{"Resolve", func(ctx context.Context, q *Queue) error {
		_, err := q.Operator.Resolve(ctx, "U-1", "", order.OutcomeAccepted, settle.Person{Name: "anna", Note: "seen"})
		return err
	}},
	{"Replay", func(ctx context.Context, q *Queue) error {
		l, err := q.Ledger.Letter(ctx, "R-1")
		if err == nil && l != nil {
			var how settle.Replay
			if how, err = q.Operator.Replay(ctx, l, settle.ReplayOptions{}); err == nil && how != settle.Replayed {
				err = errors.New(how.String())
			}
		}
		return err
	}},
	{"Drop", func(ctx context.Context, q *Queue) error {
		l, err := q.Ledger.Letter(ctx, "R-2")
		if err == nil && l != nil {
			_, err = q.Operator.Drop(ctx, l, settle.Person{Name: "anna"})
		}
		return err
	}},
}

// TestRequestsGoOnThroughAnOutage: each request of a command begins without a
// broker and ends when the broker is back at another address. The user is told
// once what the command waits for, and once that the wait is over. Nothing is
// lost or doubled.
func TestRequestsGoOnThroughAnOutage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := furnished(t, dir)
	q, said := patientQueue(t, dir, time.Minute)
	first.Stop()
	require.Eventually(t, func() bool { return !q.Conn.Connected() }, time.Minute, time.Millisecond)
	var all sync.WaitGroup
	errs := make([]error, len(requests))
	for i, r := range requests {
		all.Go(func() { errs[i] = r.do(t.Context(), q) })
	}
	require.Eventually(t, func() bool { return len(said.all()) > 0 }, time.Minute, 5*time.Millisecond)
	second := startBrokerIn(t, dir)
	require.NotEqual(t, first.URL, second.URL)
	all.Wait()
	for i, r := range requests {
		require.NoError(t, errs[i], r.name)
	}
	lines := said.all()
	require.Len(t, lines, 2, "%v", lines)
	require.Contains(t, lines[0], "waiting for the broker")
	require.Contains(t, lines[0], "gives up in ")
	require.Contains(t, lines[1], "the broker is back after ")

	c, err := q.Census.Count(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 8, c.LastIntent, "5 were there, 2 are new, 1 was replayed")
	require.EqualValues(t, 5, c.Pending, "the two that waited, the new ones, and the replayed one")
	require.EqualValues(t, 1, c.Letters, "of the replay; the others were resolved and dropped")
	w2 := openQueue(t, second, "w2")
	settleAll(t, w2, 5, func(*settle.Delivery) order.Report { return acceptance })
	requireDrained(t, w2)
	c, err = q.Census.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Letters)
	require.Len(t, everyMessage(t, q.Results()), 7, "each order has one outcome")
}

// TestRequestsGiveUp: each request gives up after cfg.BrokerWait.
func TestRequestsGiveUp(t *testing.T) {
	dir := t.TempDir()
	s := furnished(t, dir)
	q, _ := patientQueue(t, dir, 300*time.Millisecond)
	s.Stop()
	require.Eventually(t, func() bool { return !q.Conn.Connected() }, time.Minute, time.Millisecond)
	var all sync.WaitGroup
	errs := make([]error, len(requests))
	for i, r := range requests {
		all.Go(func() { errs[i] = r.do(t.Context(), q) })
	}
	all.Wait()
	for i, r := range requests {
		require.ErrorIs(t, errs[i], ErrUnreachable, r.name)
	}
}

// TestAWorkerSaysThatThereIsNoConnection: a worker's requests fail at once without a
// connection, and say why, instead of the client's "outbound buffer limit exceeded".
func TestAWorkerSaysThatThereIsNoConnection(t *testing.T) {
	t.Parallel()
	s := startBroker(t)
	q := openQueue(t, s, "w1")
	s.Stop()
	require.Eventually(t, func() bool { return q.Conn.outages.dial.Load() != nil }, time.Minute, time.Millisecond, "it has tried to reconnect")
	_, err := q.AckFloor(t.Context())
	require.ErrorContains(t, err, "no connection to the broker: ")
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "buffer")
	require.ErrorIs(t, err, nats.ErrReconnectBufExceeded)
	require.True(t, q.Conn.transient(err))
}

// TestEachOutageHasItsOwnWait: a command that is answered between two outages waits for the second one as long as for the
// first. While the connection holds, answers to other requests change nothing.
func TestEachOutageHasItsOwnWait(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	furnished(t, dir).Stop()
	s := startBrokerIn(t, dir)
	q, _ := patientQueue(t, dir, time.Minute)
	w := q.Conn.wait()
	defer w.Done()
	w.began = w.began.Add(-time.Hour)
	w.Answered()
	require.ErrorIs(t, w.Backoff(t.Context(), errUnconfirmed), settle.ErrUnreachable)
	s.Stop()
	startBrokerIn(t, dir)
	_, err := q.Ledger.Lookup(t.Context(), "R-1") // waits until the broker is back
	require.NoError(t, err)
	w.Answered()
	require.NoError(t, w.Backoff(t.Context(), errUnconfirmed))
}

// TestAWorkersRequestsDoNotWait: a worker must not hold a claim while it waits.
func TestAWorkersRequestsDoNotWait(t *testing.T) {
	s := startBroker(t)
	q := openQueue(t, s, "w1", func(c *Config) { c.BrokerWait = time.Hour })
	s.Stop()
	require.Eventually(t, func() bool { return !q.Conn.Connected() }, time.Minute, time.Millisecond)
	_, err := q.Census.Count(t.Context())
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnreachable)
}

// TestARefusalIsNoOutage: a request that the broker's permissions forbid fails
// at once and says so.
func TestARefusalIsNoOutage(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.URL, cfg.Name, cfg.BrokerWait = brokerThatDenies(t, "$JS.API.STREAM.MSG.GET.ORDERS_RESULTS"), "clerk", time.Hour
	q, err := Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	_, err = q.Ledger.Lookup(t.Context(), "A-1")
	require.ErrorContains(t, err, "the broker refuses it")
	require.True(t, strings.Contains(err.Error(), "STREAM.MSG.GET.ORDERS_RESULTS"), err)
}

// TestConnectingTellsAtOnce: a user who gave a wrong address sees what happens
// before the time is up.
func TestConnectingTellsAtOnce(t *testing.T) {
	said := &told{}
	cfg := DefaultConfig()
	cfg.URL, cfg.ConnectTimeout, cfg.BrokerWait, cfg.Tell = "nats://127.0.0.1:1", 300*time.Millisecond, time.Hour, said.tell
	_, err := Open(t.Context(), cfg, zerolog.Nop())
	require.ErrorIs(t, err, ErrUnreachable)
	at, parseErr := url.Parse(cfg.URL)
	require.NoError(t, parseErr)
	require.ErrorContains(t, err, at.Host)
	lines := said.all()
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "waiting for the broker at "+cfg.URL)
}

// TestAWorkerThatMayNotMakeStreamsSaysSo: a request that the broker's permissions forbid gets no
// answer. A worker that starts must not wait for one, and names the right instead of a deadline.
func TestAWorkerThatMayNotMakeStreamsSaysSo(t *testing.T) {
	for _, denied := range []string{"$JS.API.STREAM.INFO.ORDERS", "$JS.API.STREAM.CREATE.ORDERS_RESULTS", "$JS.API.CONSUMER.CREATE.ORDERS.workers"} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			cfg := DefaultConfig()
			cfg.URL, cfg.Name, cfg.Worker, cfg.Living, cfg.ConnectTimeout = brokerThatDenies(t, denied), "clerk", true, living, time.Hour
			_, err := Open(t.Context(), cfg, zerolog.Nop())
			require.ErrorContains(t, err, `the broker refuses it`)
			require.ErrorContains(t, err, denied)
			require.ErrorContains(t, err, "Which roles are there?")
			require.NotErrorIs(t, err, ErrUnreachable)
		})
	}
}

// TestAWorkersRefusalIsNamed: in a worker that runs, too.
func TestAWorkersRefusalIsNamed(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.URL, cfg.Name, cfg.Worker, cfg.Living = brokerThatDenies(t, "$JS.API.STREAM.MSG.GET.ORDERS_RESULTS"), "clerk", true, living
	q, err := Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	_, err = q.Ledger.Lookup(t.Context(), "A-1")
	require.ErrorContains(t, err, "STREAM.MSG.GET.ORDERS_RESULTS")
	require.ErrorIs(t, err, context.DeadlineExceeded, "whoever repeats what got no answer still does")
}

// TestAWorkerThatMayAcknowledgeNothingSaysSoOnce: its orders would come again and again, and each
// would tell it anew.
func TestAWorkerThatMayAcknowledgeNothingSaysSoOnce(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.URL, cfg.Name, cfg.Worker, cfg.Living = brokerThatDenies(t, "$JS.ACK.>"), "clerk", true, living
	var warnings atomic.Int64
	q, err := Open(t.Context(), cfg, zerolog.New(lineFunc(func() { warnings.Add(1) })).Level(zerolog.WarnLevel))
	require.NoError(t, err)
	t.Cleanup(q.Close)
	publish(t, q, intent("A-1", "i1"), intent("A-2", "i2"), intent("A-3", "i3"))
	require.Empty(t, q.Conn.OrdersDenied())
	for _, d := range pull(t, q, 3) {
		require.NoError(t, q.Worker.GiveUp(t.Context(), d))
	}
	require.NoError(t, q.Conn.nc.Flush()) // what the broker says of them comes before its answer
	require.Eventually(t, func() bool { return q.Conn.OrdersDenied() != "" }, time.Minute, time.Millisecond)
	require.Contains(t, q.Conn.OrdersDenied(), `the broker lets the NATS user of clerk publish nothing to "$JS.ACK.>"`)
	require.Eventually(t, func() bool { return warnings.Load() > 0 }, time.Minute, time.Millisecond)
	require.NoError(t, q.Conn.nc.Flush())
	require.EqualValues(t, 1, warnings.Load())
}

// TestAWorkerWaitsForALeader: of a cluster that has none yet, a server answers that JetStream is
// not available. A program that starts asks again until the time is up.
func TestAWorkerWaitsForALeader(t *testing.T) {
	t.Parallel()
	ns := runServer(t, &server.Options{})
	nc, err := nats.Connect(ns.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	var asked, leader atomic.Int64
	leader.Store(math.MaxInt64)
	_, err = nc.Subscribe("$JS.API.STREAM.INFO.>", func(m *nats.Msg) {
		answer := `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`
		if asked.Add(1) > leader.Load() {
			answer = `{"error":{"code":404,"err_code":10059,"description":"stream not found"}}`
		}
		_ = m.Respond([]byte(answer))
	})
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	cfg := DefaultConfig()
	cfg.URL, cfg.Name, cfg.Worker, cfg.Living, cfg.ConnectTimeout = ns.ClientURL(), "w1", true, living, 300*time.Millisecond
	_, err = Open(t.Context(), cfg, zerolog.Nop())
	require.ErrorIs(t, err, ErrUnreachable)
	require.ErrorContains(t, err, "JetStream at the broker at "+ns.ClientURL()+" is not ready after")
	require.ErrorContains(t, err, "stream ORDERS cannot be read")
	require.ErrorContains(t, err, "more than half of its servers")
	require.Greater(t, asked.Load(), int64(1))

	leader.Store(asked.Load() + 3)
	cfg.Missing, cfg.ConnectTimeout = RefuseMissing, time.Minute
	_, err = Open(t.Context(), cfg, zerolog.Nop())
	var missing *MissingError
	require.ErrorAs(t, err, &missing, "the leader that came answered")
}

// TestWhoGivesUpSaysNotThatTheBrokerIsBack: a connection to a cluster without a leader holds and
// answers nothing. When the wait is over, nobody is back.
func TestWhoGivesUpSaysNotThatTheBrokerIsBack(t *testing.T) {
	t.Parallel()
	s := startBroker(t)
	openQueue(t, s, "w1")
	said := &told{}
	cfg := DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name, cfg.BrokerWait, cfg.Tell = s.URL, s.Token, "command", 2*tellAfter, said.tell
	q, err := Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(q.Close)
	err = q.Conn.patiently(t.Context(), func(context.Context) error { return nats.ErrNoResponders })
	require.ErrorIs(t, err, ErrUnreachable)
	lines := said.all()
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "waiting for the broker")

	ctx, interrupt := context.WithCancel(t.Context())
	q.Conn.cfg.Tell = func(line string) { said.tell(line); interrupt() }
	err = q.Conn.patiently(ctx, func(context.Context) error { return nats.ErrNoResponders })
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, said.all(), 2, "neither is anybody for whoever presses Ctrl-C")
}

// brokerThatDenies starts a broker whose only user may not publish to a subject.
func brokerThatDenies(t *testing.T, subject string) (url string) {
	user := &server.User{Username: "clerk", Password: "clerk", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Deny: []string{subject}}}}
	ns := runServer(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{user}})
	return strings.Replace(ns.ClientURL(), "nats://", "nats://clerk:clerk@", 1)
}

// TestABrokerWithoutJetStream: people read what it lacks, and who can change that.
func TestABrokerWithoutJetStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options server.Options
		want    string
	}{
		"server":  {server.Options{}, "this NATS server runs without JetStream; start nats-server with -js, or with jetstream {} in its configuration; a leaf node must reach its hub, and pass JetStream on"},
		"account": {server.Options{JetStream: true, StoreDir: t.TempDir(), Accounts: []*server.Account{server.NewAccount("plain")}, NoAuthUser: "u"}, "jetstream: enabled in that account"},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Host, c.options.Port, c.options.NoLog, c.options.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
			for _, a := range c.options.Accounts {
				c.options.Users = []*server.User{{Username: "u", Password: "p", Account: a}}
			}
			s, err := server.NewServer(&c.options)
			require.NoError(t, err)
			s.Start()
			t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
			require.True(t, s.ReadyForConnections(time.Minute))
			cfg := DefaultConfig()
			cfg.Name, cfg.URL = "program", s.ClientURL()
			for _, wait := range []time.Duration{0, 300 * time.Millisecond} { // a worker does not wait
				cfg.BrokerWait = wait
				_, err = Open(t.Context(), cfg, zerolog.Nop())
				require.ErrorContains(t, err, c.want)
				require.Equal(t, wait > 0, errors.Is(err, ErrUnreachable))
			}
		})
	}
}

// breaking dials connections, and breaks the first one that is about to send a text.
type breaking struct {
	text string
	done atomic.Bool
}

func (b *breaking) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &breakable{c, b}, err
}

type breakable struct {
	net.Conn
	by *breaking
}

func (c *breakable) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.by.text)) && c.by.done.CompareAndSwap(false, true) {
		_ = c.Close()
	}
	return c.Conn.Write(p)
}

// A worker that starts while its server goes, as in an upgrade, looks for the streams over its next connection.
func TestAConnectionThatBreaksAtTheStart(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"$JS.API.STREAM.INFO.ORDERS ", "$JS.API.STREAM.CREATE.ORDERS_RESULTS ", "$JS.API.CONSUMER.CREATE.ORDERS.", "$JS.API.STREAM.INFO.KV_ORDERPOST "} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			ns := runServer(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})
			cfg := DefaultConfig()
			cfg.URL, cfg.Name, cfg.Worker, cfg.Living = ns.ClientURL(), "a", true, living
			b := &breaking{text: text}
			q, err := Open(t.Context(), cfg, zerolog.Nop(), nats.SetCustomDialer(b))
			require.True(t, b.done.Load())
			require.NoError(t, err)
			q.Close()
		})
	}
}
