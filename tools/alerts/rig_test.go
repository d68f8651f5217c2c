package alerts

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/cli"
	"orderpost/internal/cli/worker"
	"orderpost/internal/notify"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/queue/embedded"
	"orderpost/internal/sandbox"
	"orderpost/internal/settle"
)

// patience bounds every wait of these tests, pause is the time between two
// looks at a condition.
const (
	patience = 60 * time.Second
	pause    = 30 * time.Millisecond
)

// rig is a broker and an API in the test's process, workers in theirs, and a
// Prometheus that scrapes them.
type rig struct {
	t        *testing.T
	dir      string // the broker's
	broker   *embedded.Server
	api      *sandbox.Server
	settings map[string]string
	q        *queue.Queue
	prom     *prometheus
	hooks    *hooks
	workers  map[string]target // by instance
	started  int
	orders   int
}

func newRig(t *testing.T, change map[string]string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), prom: newPrometheus(t), workers: make(map[string]target)}
	r.startBroker("127.0.0.1:0")
	t.Cleanup(func() { r.broker.Stop() })
	var err error
	r.api, err = sandbox.New(sandbox.Config{Keys: map[string]string{"key": "secret"}, Logger: zerolog.Nop()})
	require.NoError(t, err)
	url, err := r.api.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.api.Close() })
	// What a worker waits for by itself is made short where a setting can: its clock is
	// the real one.
	r.settings = map[string]string{
		"ORDERPOST_API_URL": url, "ORDERPOST_API_KEY": "key", "ORDERPOST_API_SECRET": "secret",
		"ORDERPOST_NATS_URL": strings.Replace(r.broker.URL, "nats://", "nats://"+r.broker.Token+"@", 1),
		"ORDERPOST_OPS_ADDR": "127.0.0.1:0", "ORDERPOST_LOG_FORMAT": "json", "ORDERPOST_CONCURRENCY": "16",
		"ORDERPOST_ACK_WAIT": "20s", "ORDERPOST_PREFLIGHT": "false",
		"ORDERPOST_HOLD_RETRY": "100ms", "ORDERPOST_RETRY_DELAY_MAX": "200ms", "ORDERPOST_DRAIN_TIMEOUT": "1s",
	}
	r.settings["ORDERPOST_GATEWAY_LISTEN"] = "127.0.0.1:0"
	r.hooks = startHooks(t)
	r.settings["ORDERPOST_NOTIFY_URL"], r.settings["ORDERPOST_NOTIFY_SECRET"] = r.hooks.URL, notify.NewSecret()
	maps.Copy(r.settings, change)
	cfg := queue.DefaultConfig()
	cfg.URL, cfg.Token, cfg.Name = r.broker.URL, r.broker.Token, "test"
	r.q, err = queue.Open(t.Context(), cfg, zerolog.Nop())
	require.NoError(t, err)
	t.Cleanup(r.q.Close)
	r.startWorker()
	return r
}

func (r *rig) startBroker(listen string) {
	r.t.Helper()
	var err error
	r.broker, err = embedded.Start(embedded.Config{Dir: r.dir, Listen: listen, NoSync: true})
	require.NoError(r.t, err)
}

// restartBroker starts the broker that was stopped, at the same address.
func (r *rig) restartBroker() {
	r.t.Helper()
	r.startBroker(strings.TrimPrefix(r.broker.URL, "nats://"))
	r.eventually("connected again", r.q.Conn.Connected)
}

// startWorker starts one more worker, which Prometheus finds under a name of
// its own, as it does a new pod.
func (r *rig) startWorker() {
	r.t.Helper()
	r.started++
	name := fmt.Sprintf("w%d", r.started)
	c := startTarget(r.t, name, r.settings)
	r.workers[name], r.prom.targets[name] = c, c.metrics
}

// killWorkers ends all of them as a power cut would. Their targets are gone.
func (r *rig) killWorkers() {
	for name, c := range r.workers {
		c.Kill()
		delete(r.workers, name)
		delete(r.prom.targets, name)
	}
}

// command runs one of the worker program's commands, which steer the fleet.
func (r *rig) command(args ...string) {
	r.t.Helper()
	var out, errOut bytes.Buffer
	settings := map[string]string{"ORDERPOST_NATS_URL": r.settings["ORDERPOST_NATS_URL"], "USER": "anna"}
	require.Equal(r.t, cli.ExitDone, worker.Run(r.t.Context(), args, settings, nil, &out, &errOut), "%v: %s", args, errOut.String())
}

// publish puts n orders into the queue.
func (r *rig) publish(n int) {
	r.t.Helper()
	r.publishIn("", n)
}

// publishWaiting publishes orders that wait for their turn.
func (r *rig) publishWaiting(n int) {
	r.t.Helper()
	r.publishIn(order.BulkLane, n)
}

// publishUntil publishes one order after another until the condition holds. lane "" is
// the queue itself.
func (r *rig) publishUntil(lane, what string, condition func() bool) {
	r.t.Helper()
	r.eventually(what, func() bool {
		r.publishIn(lane, 1)
		return condition()
	})
}

func (r *rig) publishIn(lane string, n int) {
	r.t.Helper()
	in := make([]settle.Intent, n)
	for i := range in {
		r.orders++
		no := fmt.Sprintf("A-%05d", r.orders)
		in[i] = settle.Intent{OrderNo: no, Lane: lane, ID: "i:" + no, Body: fmt.Appendf(nil, `{"order_no":%q,"timeout":30,"qty":"1"}`, no)}
	}
	for _, res := range r.q.PublishMany(r.t.Context(), in) {
		require.NoError(r.t, res.Err)
	}
}

// bring posts one order to the HTTP door of a worker, and returns the answer's status.
func (r *rig) bring() int {
	r.t.Helper()
	r.orders++
	for _, w := range r.workers {
		body := strings.NewReader(fmt.Sprintf(`{"order_no":"A-%05d","timeout":30,"qty":"1"}`, r.orders))
		resp, err := r.prom.client.Post(w.door+"/v1/orders", "application/json", body)
		require.NoError(r.t, err)
		require.NoError(r.t, resp.Body.Close())
		return resp.StatusCode
	}
	require.Fail(r.t, "no worker runs")
	return 0
}

// change gives the API other manners.
func (r *rig) change(how func(*sandbox.Settings)) {
	r.t.Helper()
	require.NoError(r.t, r.api.Update(how))
}

// hands is a person's own connection to the broker.
func (r *rig) hands() (js jetstream.JetStream, done func()) {
	r.t.Helper()
	nc, err := nats.Connect(r.broker.URL, nats.Token(r.broker.Token), nats.Timeout(time.Minute))
	require.NoError(r.t, err)
	js, err = jetstream.New(nc)
	require.NoError(r.t, err)
	return js, nc.Close
}

// write writes a key of the fleet's bucket by hand.
func (r *rig) write(key, value string) {
	r.t.Helper()
	js, done := r.hands()
	defer done()
	kv, err := js.KeyValue(r.t.Context(), "ORDERPOST")
	require.NoError(r.t, err)
	_, err = kv.PutString(r.t.Context(), key, value)
	require.NoError(r.t, err)
}

// acknowledge acknowledges the next intent without an outcome, as no worker does.
func (r *rig) acknowledge() {
	r.t.Helper()
	js, done := r.hands()
	defer done()
	consumer, err := js.Consumer(r.t.Context(), "ORDERS", "workers")
	require.NoError(r.t, err)
	msg, err := consumer.Next(jetstream.FetchMaxWait(patience)) // a worker that is gone may have been given it
	require.NoError(r.t, err)
	require.NoError(r.t, msg.DoubleAck(r.t.Context()))
}

func (r *rig) deleteStream(name string) {
	r.t.Helper()
	js, done := r.hands()
	defer done()
	require.NoError(r.t, js.DeleteStream(r.t.Context(), name))
}

// limit bounds the messages of a stream; -1: no bound.
func (r *rig) limit(name string, most int64) {
	r.t.Helper()
	js, done := r.hands()
	defer done()
	stream, err := js.Stream(r.t.Context(), name)
	require.NoError(r.t, err)
	cfg := stream.CachedInfo().Config
	cfg.MaxMsgs = most
	_, err = js.UpdateStream(r.t.Context(), cfg)
	require.NoError(r.t, err)
}

// muteResults: the broker answers nobody who writes results, as one does whose
// disk has failed.
func (r *rig) muteResults(mute bool) {
	r.t.Helper()
	js, done := r.hands()
	defer done()
	stream, err := js.Stream(r.t.Context(), "ORDERS_RESULTS")
	require.NoError(r.t, err)
	cfg := stream.CachedInfo().Config
	cfg.NoAck = mute
	_, err = js.UpdateStream(r.t.Context(), cfg)
	require.NoError(r.t, err)
}

func (r *rig) eventually(what string, condition func() bool) {
	r.t.Helper()
	require.Eventually(r.t, condition, patience, pause, what)
}

// above waits until the sum of a metric's series exceeds a value.
func (r *rig) above(least float64, metric string, matching ...string) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%s%q above %v", metric, matching, least), func() bool { return r.prom.sum(metric, matching...) > least })
}

// settled waits until no order is pending, and the gate is open: one more order
// opens a gate that is on trial.
func (r *rig) settled() {
	r.t.Helper()
	r.eventually("everything settled and the gate open", func() bool {
		c, err := r.q.Census.Count(r.t.Context())
		if err != nil || c.Pending > 0 {
			return false
		}
		open := r.prom.reads("orderpost_gate_open")
		if len(open) > 0 && open[0] == 0 {
			r.publish(1)
		}
		told := r.hooks.down.Load() || len(r.prom.reads("orderpost_notify_oldest_timestamp_seconds")) == 0
		return told && len(open) > 0 && open[0] == 1 && r.prom.sum("orderpost_pending_orders") == 0
	})
}
