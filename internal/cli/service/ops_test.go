package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/cli"
	"orderpost/internal/cli/service"
	"orderpost/internal/fleet"
	"orderpost/internal/ops"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
	"orderpost/internal/settle"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

const (
	shopKey    = "shop-key"
	shopSecret = "shop-secret"
	// patience bounds every wait for a condition; it is only ever used up by
	// a test that fails.
	patience = 2 * time.Minute
)

// shop is a running worker, with the broker and the API that it works for.
type shop struct {
	t      *testing.T
	broker *queuetest.Broker
	api    *sandbox.Server
	queue  *queue.Queue
	log    *logLines
	stop   context.CancelFunc
	ended  chan error
	ops    string // base URL
	look   time.Duration
	trace  trace.Tracer
	early  atomic.Int32 // how many POSTs the API answers with 425
	// held keeps the API from answering to orders while it is locked.
	held sync.RWMutex
}

// hold publishes the first n orders and keeps the API from answering to them until
// release is called.
func (s *shop) hold(n int) (release func()) {
	s.held.Lock()
	release = sync.OnceFunc(s.held.Unlock)
	s.t.Cleanup(release) // or the API's server would wait for ever
	s.publish(0, n)
	return release
}

// open starts everything and waits until the worker is ready. before runs when
// broker and API are up and the worker is not.
func open(t *testing.T, before func(*shop), change ...func(*service.Config)) *shop {
	t.Helper()
	s := &shop{t: t, log: &logLines{}, ended: make(chan error, 1), broker: queuetest.Start(t)}
	var err error
	s.api, err = sandbox.New(sandbox.Config{Keys: map[string]string{shopKey: shopSecret}, Logger: zerolog.Nop()})
	require.NoError(t, err)
	front := httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(front.Close)

	cfg := s.config(front.URL)
	for _, c := range change {
		c(&cfg)
	}
	s.queue = queuetest.Connect(t, cfg.Queue)
	if before != nil {
		before(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() {
		s.ended <- service.Run(ctx, cfg, service.Env{Version: "v9.9.9", Log: zerolog.New(s.log), Trace: s.trace}.Looking(s.look))
		close(s.ended)
	}()
	t.Cleanup(func() { cancel(); <-s.ended })
	s.eventually(func() bool { s.ops = s.log.find("serving /metrics", "url"); return s.ops != "" }, "the worker serves nothing")
	s.eventually(func() bool { return s.readiness().Ready }, "the worker does not get ready")
	return s
}

// answer is the API, which waits with orders where a test holds it.
func (s *shop) answer(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		s.held.RLock()
		defer s.held.RUnlock()
		if s.early.Add(-1) >= 0 {
			w.WriteHeader(http.StatusTooEarly)
			return
		}
	}
	s.api.Handler().ServeHTTP(w, r)
}

func (s *shop) config(apiURL string) service.Config {
	s.t.Helper()
	var cfg service.Config
	require.NoError(s.t, cli.ReadEnv(&cfg, map[string]string{
		"ORDERPOST_API_URL": apiURL, "ORDERPOST_API_KEY": shopKey, "ORDERPOST_API_SECRET": shopSecret,
		"ORDERPOST_NATS_URL": s.broker.URL, "ORDERPOST_OPS_ADDR": "127.0.0.1:0", "ORDERPOST_WORKER_NAME": "shop",
		"ORDERPOST_CONCURRENCY": "8",
	}))
	cfg.Submit.Tuning = submit.DefaultTuning()
	cfg.Submit.ProbeDelay = 20 * time.Millisecond
	cfg.Queue.Token = s.broker.Token
	cfg = cfg.Normalize()
	require.NoError(s.t, cfg.Validate())
	return cfg
}

func (s *shop) publish(from, n int) {
	s.t.Helper()
	in := make([]settle.Intent, n)
	for i := range in {
		no := fmt.Sprintf("SECRET-NO-%d", from+i)
		in[i] = queuetest.Intent(no, no)
	}
	for _, r := range s.queue.PublishMany(s.t.Context(), in) {
		require.NoError(s.t, r.Err)
	}
}

func (s *shop) eventually(is func() bool, otherwise string) {
	s.t.Helper()
	require.Eventually(s.t, is, patience, 5*time.Millisecond, otherwise)
}

// shows waits for lines of /metrics.
func (s *shop) shows(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		s.eventually(func() bool {
			_, text := s.get("/metrics")
			return strings.Contains(text, "\n"+line+"\n")
		}, "not shown: "+line)
	}
}

// readiness asks /readyz; the zero value where nobody answers.
func (s *shop) readiness() (r ops.Readiness) {
	status, body := s.get("/readyz")
	if json.Unmarshal([]byte(body), &r) == nil {
		assert.Equal(s.t, r.Ready, status == http.StatusOK)
	}
	return r
}

// get asks the worker; status 0 where nobody answers.
func (s *shop) get(path string) (status int, body string) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(s.ops + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(text)
}

// logLines keeps a log.
type logLines struct{ patient.Buffer }

// find gives a field of the first line whose message begins with the given text.
func (l *logLines) find(message, field string) string {
	for line := range strings.SplitSeq(l.String(), "\n") {
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) != nil {
			continue
		}
		if text, _ := fields["message"].(string); strings.HasPrefix(text, message) {
			value, _ := fields[field].(string)
			return value
		}
	}
	return ""
}

func TestScrapeOfAWorker(t *testing.T) {
	s := open(t, nil)
	s.publish(0, 20)
	s.shows(
		`orderpost_orders_total{outcome="accepted"} 20`,
		`orderpost_orders_total{outcome="unknown"} 0`,
		`orderpost_attempts_total{verdict="accepted"} 20`,
		`orderpost_enqueue_to_settled_seconds_count 20`,
		`orderpost_request_duration_seconds_count 20`,
		`orderpost_gate_wait_seconds_count 20`,
		`orderpost_request_size_bytes_count 20`,
		`orderpost_in_flight_orders 0`,
		`orderpost_slots 8`,
		`orderpost_gate_open 1`,
		`orderpost_broker_connected 1`,
		`orderpost_pending_orders 0`,
		`orderpost_dead_letters 0`,
		`orderpost_lease_losses_total 0`,
	)
	_, text := s.get("/metrics")
	require.Contains(t, text, `version="v9.9.9"`)
	require.Contains(t, text, "\norderpost_clock_offset_seconds ")
	for _, secret := range []string{"SECRET-NO", shopKey, shopSecret} {
		require.NotContains(t, text, secret)
	}
}

func TestAWorkerThatIsHeldByTheAPIIsReady(t *testing.T) {
	s := open(t, nil)
	require.True(t, s.api.RevokeKey(shopKey))
	s.publish(0, 3)
	s.shows(`orderpost_gate_open 0`, `orderpost_gate_closings_total{block="credentials"} 1`, `orderpost_gate_closings_total{block="breaker"} 0`)
	r := s.readiness()
	require.True(t, r.Ready)
	require.False(t, r.GateOpen)
	require.Equal(t, gate.BlockCredentials, r.Held[0].Name)
	require.NotEmpty(t, r.Held[0].Reason)

	require.NoError(t, s.api.AddKey(shopKey, shopSecret))
	s.shows(`orderpost_orders_total{outcome="accepted"} 3`, `orderpost_gate_open 1`)
	require.Empty(t, s.readiness().Held)
}

func TestAWorkerWithoutBrokerIsAliveAndNotReady(t *testing.T) {
	s := open(t, nil)
	s.shows(`orderpost_pending_orders 0`)
	s.broker.Stop()
	s.shows(`orderpost_broker_connected 0`)
	require.Equal(t, []string{"not connected to the broker"}, s.readiness().Reasons)
	status, _ := s.get("/livez")
	require.Equal(t, http.StatusOK, status)
	_, text := s.get("/metrics")
	require.NotContains(t, text, "\norderpost_pending_orders ", "nobody knows")
}

func TestADrainingWorkerIsNotReady(t *testing.T) {
	var release func()
	s := open(t, func(s *shop) { release = s.hold(1) })
	s.shows(`orderpost_in_flight_requests 1`, `orderpost_in_flight_orders 1`, `orderpost_pending_orders 1`)
	s.stop()
	s.eventually(func() bool { return !s.readiness().Ready }, "still ready")
	reasons := s.readiness().Reasons
	require.Len(t, reasons, 1)
	require.Contains(t, reasons[0], "draining")
	release()
	require.NoError(t, <-s.ended, "the order in flight is finished")
	require.Equal(t, 1, s.api.Created("SECRET-NO-0"))
	status, _ := s.get("/livez")
	require.Zero(t, status, "the server goes with the worker")
}

// value reads one sample without labels; -1 where there is none.
func (s *shop) value(metric string) float64 {
	_, text := s.get("/metrics")
	_, rest, found := strings.Cut(text, "\n"+metric+" ")
	line, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(line, 64)
	if !found || err != nil {
		return -1
	}
	return v
}

// TestTheScalingSignal: the orders that nobody was given; none while the fleet
// is held, since more workers would change nothing.
func TestTheScalingSignal(t *testing.T) {
	var release func()
	s := open(t, func(s *shop) { release = s.hold(30) })
	s.eventually(func() bool {
		v := s.value("orderpost_scaling_orders")
		return v >= 30-8 && v <= 30 // 8 slots; as of the last look at the streams
	}, "not told how many orders wait")
	require.NoError(t, fleet.New(s.queue).SetHold(t.Context(), fleet.Hold{Reason: "lunch", By: "test", Since: time.Now()}))
	s.shows(`orderpost_scaling_orders 0`, `orderpost_gate_open 0`, `orderpost_pending_orders 30`, `orderpost_fleet_held 1`)
	require.Positive(t, s.value("orderpost_oldest_due_timestamp_seconds"))
	require.NoError(t, fleet.New(s.queue).Resume(t.Context(), "test"))
	s.eventually(func() bool { return s.value("orderpost_scaling_orders") > 0 }, "the signal does not come back")
	release()
	s.shows(`orderpost_orders_total{outcome="accepted"} 30`, `orderpost_fleet_held 0`)
	s.eventually(func() bool { return s.value("orderpost_oldest_due_timestamp_seconds") == -1 }, "something is due")
}

// Profiles show what is in a worker's memory.
func TestProfilesForEverybodyAreWarnedOf(t *testing.T) {
	t.Parallel()
	for addr, warned := range map[string]bool{"127.0.0.1:0": false, "localhost:0": false, ":0": true, "0.0.0.0:0": true} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			s := open(t, nil, func(c *service.Config) { c.OpsAddr, c.PProf = addr, true })
			require.Equal(t, warned, s.log.find("every machine that reaches this address can read Go profiles", "address") == addr)
		})
	}
}
