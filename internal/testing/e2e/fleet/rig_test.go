package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/cli/worker"
	"orderpost/internal/fleet"
	"orderpost/internal/order"
	"orderpost/internal/queue"
	"orderpost/internal/sandbox"
	"orderpost/internal/settle"
	"orderpost/internal/testing/e2e/child"
	"orderpost/internal/testing/queuetest"
)

// patience bounds every wait of these tests.
const patience = 60 * time.Second

// rig is a broker and an API in the test's process, and workers in theirs.
type rig struct {
	t        *testing.T
	broker   *queuetest.Broker
	api      *sandbox.Server
	apiURL   string
	settings map[string]string
	q        *queue.Queue
}

func newRig(t *testing.T, change map[string]string) *rig {
	t.Helper()
	r := &rig{t: t, broker: queuetest.Start(t)}
	var err error
	r.api, err = sandbox.New(sandbox.Config{Keys: map[string]string{"key": "secret"}, Trail: 100_000, Logger: zerolog.Nop()})
	require.NoError(t, err)
	r.apiURL, err = r.api.Start("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.api.Close() })
	r.settings = map[string]string{
		"ORDERPOST_API_URL": r.apiURL, "ORDERPOST_API_KEY": "key", "ORDERPOST_API_SECRET": "secret",
		"ORDERPOST_NATS_URL": strings.Replace(r.broker.URL, "nats://", "nats://"+r.broker.Token+"@", 1),
		"ORDERPOST_OPS_ADDR": "", "ORDERPOST_LOG_FORMAT": "json", "ORDERPOST_LOG_LEVEL": "debug",
		"ORDERPOST_CONCURRENCY": "16", "ORDERPOST_BREAKER_RATIO": "0",
		"ORDERPOST_ACK_WAIT": "3s", "ORDERPOST_REQUEST_TIMEOUT": "1s",
	}
	maps.Copy(r.settings, change)
	wait, err := time.ParseDuration(r.settings["ORDERPOST_ACK_WAIT"])
	require.NoError(t, err)
	r.q = queuetest.Open(t, r.broker, "test", queuetest.AsCommand, func(c *queue.Config) { c.AckWait = wait })
	return r
}

// start starts a worker.
func (r *rig) start(name string) *child.Child { return child.Start(r.t, name, r.settings) }

// startMany starts workers w0, w1, …
func (r *rig) startMany(n int) []*child.Child {
	list := make([]*child.Child, n)
	for i := range list {
		list[i] = r.start(fmt.Sprintf("w%d", i))
	}
	return list
}

// command runs one of the worker program's commands, which steer the fleet.
func (r *rig) command(args ...string) string {
	r.t.Helper()
	var out, errOut bytes.Buffer
	settings := map[string]string{"ORDERPOST_NATS_URL": r.settings["ORDERPOST_NATS_URL"], "USER": "anna"}
	require.Zero(r.t, worker.Run(r.t.Context(), args, settings, nil, &out, &errOut), "%v: %s", args, errOut.String())
	return out.String()
}

// members asks the fleet who is there, by the same command that people use.
func (r *rig) members() []fleet.Presence {
	var answer struct{ Workers []fleet.Presence }
	require.NoError(r.t, json.Unmarshal([]byte(r.command("fleet", "--json")), &answer))
	return answer.Workers
}

// shares waits until exactly n workers are there, each with its share, and open.
func (r *rig) shares(n int, share float64) {
	r.t.Helper()
	r.eventually(func() bool {
		list := r.members()
		return len(list) == n && !slices.ContainsFunc(list, func(p fleet.Presence) bool {
			return p.Share-share > 0.01 || share-p.Share > 0.01 || !p.Joined || !p.Open
		})
	}, "%d workers with %.4g/s each", n, share)
}

func (r *rig) eventually(condition func() bool, what string, args ...any) {
	r.t.Helper()
	require.Eventually(r.t, condition, patience, 20*time.Millisecond, fmt.Sprintf(what, args...))
}

// publish puts n orders into the queue.
func (r *rig) publish(prefix string, n int) {
	r.t.Helper()
	in := make([]settle.Intent, n)
	for i := range in {
		no := fmt.Sprintf("%s-%05d", prefix, i)
		in[i] = queuetest.Intent(no, "i:"+no)
	}
	for _, res := range r.q.PublishMany(r.t.Context(), in) {
		require.NoError(r.t, res.Err)
	}
}

func (r *rig) created() int { return int(r.api.Ledger().OrdersCreated) }

// attempts are the requests that the API got, oldest first.
func (r *rig) attempts() []sandbox.Step {
	r.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(r.apiURL + "/_sandbox/requests")
	require.NoError(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	var out []sandbox.Step
	for dec := json.NewDecoder(resp.Body); dec.More(); {
		var s sandbox.Step
		require.NoError(r.t, dec.Decode(&s))
		if s.Method == http.MethodPost {
			out = append(out, s)
		}
	}
	return out
}

// settled waits until nothing is pending and compares all three books: the
// streams with each other and with what the API created. Each order exists once.
func (r *rig) settled(orders int) map[string]*order.Record {
	r.t.Helper()
	r.eventually(func() bool {
		c, err := r.q.Census.Count(r.t.Context())
		return err == nil && c.Pending == 0 && c.LastIntent > 0
	}, "nothing pending")
	audit, err := audit.Audit(context.WithoutCancel(r.t.Context()), r.q)
	require.NoError(r.t, err)
	require.True(r.t, audit.Balanced(), "%+v", audit)
	out := make(map[string]*order.Record)
	require.NoError(r.t, queue.EachRecord(r.t.Context(), r.q, func(rec *order.Record) error {
		require.Equal(r.t, "accepted", rec.Word, "%s: %s %s", rec.OrderNo, rec.Reason, rec.Error)
		require.Equal(r.t, 1, r.api.Created(rec.OrderNo), rec.OrderNo)
		out[rec.OrderNo] = rec
		return nil
	}))
	require.Len(r.t, out, orders)
	return out
}
