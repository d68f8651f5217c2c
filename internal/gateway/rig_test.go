package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/gateway/fileimport"
	"orderpost/internal/ops"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
	"orderpost/internal/testing/netcut"
	"orderpost/internal/testing/patient"
	"orderpost/internal/testing/queuetest"
)

func TestMain(m *testing.M) { patient.Main(m) }

const patience = time.Minute

// rig is a broker, a worker's queue, and an HTTP door with a queue of its own.
type rig struct {
	*Server
	t        testing.TB
	broker   *queuetest.Broker
	worker   *queue.Queue
	log      *patient.Buffer
	registry *prometheus.Registry
	client   *http.Client
}

// newRig opens a door on loopback. change changes its options, the queue's settings or both.
func newRig(t testing.TB, change ...func(*Options, *queue.Config)) *rig {
	t.Helper()
	return newRigOver(t, nil, change...)
}

// newRigOver is newRig with a dialer between the door and the broker; nil = none.
func newRigOver(t testing.TB, dialer *netcut.Dialer, change ...func(*Options, *queue.Config)) *rig {
	t.Helper()
	r := &rig{t: t, broker: queuetest.Start(t), log: &patient.Buffer{}, registry: prometheus.NewRegistry()}
	r.worker = queuetest.Open(t, r.broker, "worker")
	o := Options{Config: Config{Listen: "127.0.0.1:0", KeepAlive: time.Minute, ImportTotal: 64}, Files: fileimport.Open, Metrics: ops.NewGateway(r.registry, MetricsOptions()),
		Log: zerolog.New(r.log), DrainTimeout: 10 * time.Second}
	var opts []nats.Option
	if dialer != nil {
		opts = append(opts, nats.SetCustomDialer(dialer))
	}
	cfg := r.broker.Config("test")
	queuetest.AsCommand(&cfg)
	cfg.BrokerWait = 10 * time.Second
	for _, c := range change {
		c(&o, &cfg)
	}
	q := queuetest.Connect(t, cfg, opts...)
	o.Queue, o.DataDir = q, r.broker.Dir
	s, err := Listen(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	r.Server = s
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = &http.Client{Transport: transport}
	return r
}

// answer is what the door answered.
type answer struct {
	status int
	header http.Header
	text   string
}

// problem reads the answer as a problem.
func (a answer) problem(t testing.TB) *problem {
	t.Helper()
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), a.text)
	p := new(problem)
	require.NoError(t, json.Unmarshal([]byte(a.text), p), a.text)
	require.Equal(t, a.status, p.Status)
	return p
}

// do sends a request. headers are names and values in turn; Content-Type is JSON unless
// they say otherwise.
func (r *rig) do(method, path, body string, headers ...string) answer {
	r.t.Helper()
	a, err := r.try(method, path, strings.NewReader(body), headers...)
	require.NoError(r.t, err)
	return a
}

func (r *rig) try(method, path string, body io.Reader, headers ...string) (a answer, err error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.URL()+path, body)
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", mediaJSON)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return a, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, err
}

func body(no string) string { return fmt.Sprintf(`{"order_no":%q,"timeout":30,"qty":"1"}`, no) }

// settle settles the next n deliveries as accepted, now or before.
func (r *rig) settle(n int) {
	r.t.Helper()
	for done, began := 0, time.Now(); done < n; {
		require.Less(r.t, time.Since(began), patience)
		require.NoError(r.t, r.worker.Pull(r.t.Context(), n-done, time.Second, func(ds []*settle.Delivery) {
			for _, d := range ds {
				rep := order.Report{End: order.EndAnswer, Verdict: order.Accepted, Status: 200, Response: `{"id":"77"}`, History: order.History{Attempts: 1}}
				var err error
				if d.Work == settle.WorkRepeat {
					_, err = r.worker.Worker.Repeat(r.t.Context(), d)
				} else {
					_, err = r.worker.Worker.Settle(r.t.Context(), d, &rep, order.Decide(&rep, order.Facts{}))
				}
				require.NoError(r.t, err)
				d.Release()
				done++
			}
		}))
	}
}

// stored counts the intents in the queue.
func (r *rig) stored() int {
	r.t.Helper()
	require.Eventually(r.t, r.worker.Conn.Connected, patience, time.Millisecond) // it reconnects by itself
	state, err := r.worker.Intents().State(r.t.Context())
	require.NoError(r.t, err)
	return int(state.Messages)
}

// clientsFile writes a file of clients with these scopes, by name. Their tokens are
// "token-" and the name. change changes each entry.
func clientsFile(t testing.TB, clients map[string][]Scope, change ...func(*Entry)) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clients.yaml")
	writeClients(t, path, clients, change...)
	return path
}

func writeClients(t testing.TB, path string, clients map[string][]Scope, change ...func(*Entry)) {
	t.Helper()
	text := "clients:\n"
	for name, scopes := range clients {
		e, _, err := NewEntry(name, scopes)
		require.NoError(t, err)
		e.Tokens = []string{fmt.Sprintf("sha256-%x", hashed("token-"+name))}
		for _, c := range change {
			c(&e)
		}
		lines, err := e.YAML()
		require.NoError(t, err)
		text += lines
	}
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func bearer(name string) string { return "Bearer token-" + name }

// open returns how many requests of a route are under way.
func (r *rig) open(route string) float64 {
	families, err := r.registry.Gather()
	if err != nil {
		return -1
	}
	for _, f := range families {
		if f.GetName() != "orderpost_gateway_open_requests" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == route {
				return m.GetGauge().GetValue()
			}
		}
	}
	return 0
}
