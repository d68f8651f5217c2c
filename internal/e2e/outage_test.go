package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"orderpost/internal/program"
	"orderpost/internal/queue/embedded"
)

// scraped is what a worker told at one moment.
type scraped map[string]*dto.MetricFamily

// scrape asks a worker; nil where nobody answers.
func scrape(t *testing.T, base string) scraped {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(base + "/metrics")
	if err != nil {
		return nil
	}
	defer func() { _, _ = io.Copy(io.Discard, resp.Body); _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	require.NoError(t, err)
	return families
}

// values are those of the series with a label; of all where it is "".
func (s scraped) values(metric, label, value string) (out []float64) {
	for _, m := range s[metric].GetMetric() {
		is := label == ""
		for _, l := range m.GetLabel() {
			is = is || l.GetName() == label && l.GetValue() == value
		}
		if is {
			out = append(out, m.GetGauge().GetValue()+m.GetCounter().GetValue())
		}
	}
	return out
}

// The forms of expressions that one scrape decides.
var (
	stands = regexp.MustCompile(`^max by \([a-z, ]+\) \((\w+)\{(\w+)="(\w+)"\}\) > 0$`)
	isZero = regexp.MustCompile(`^(\w+) == 0$`)
)

// fires evaluates an alert's expression, as alerts.yaml has it, on one scrape.
func (s scraped) fires(t *testing.T, expr string) bool {
	t.Helper()
	if m := stands.FindStringSubmatch(expr); m != nil {
		for _, v := range s.values(m[1], m[2], m[3]) {
			if v > 0 {
				return true
			}
		}
		return false
	}
	m := isZero.FindStringSubmatch(expr)
	require.NotNil(t, m, "not an expression of one scrape: %s", expr)
	for _, v := range s.values(m[1], "", "") {
		if v == 0 {
			return true
		}
	}
	return false
}

// outage is a worker whose API, key and broker are taken away in turn.
type outage struct {
	t        *testing.T
	settings map[string]string // the worker's
	api      string
	ops      string
	exprs    map[string]string
	orders   int
}

// enqueue imports n more orders.
func (o *outage) enqueue(n int) {
	o.t.Helper()
	var b strings.Builder
	b.WriteString("order_no,timeout\n")
	for range n {
		o.orders++
		fmt.Fprintf(&b, "OUT-%05d,60\n", o.orders)
	}
	code, _, errOut := importFile(o.t, o.settings, writeFile(o.t, b.String()), "--quiet")
	require.Equal(o.t, program.ExitDone, code, errOut)
}

// waitFor waits until an alert's condition is there, or gone.
func (o *outage) waitFor(name string, fires bool) {
	o.t.Helper()
	expr := o.exprs[name]
	require.NotEmpty(o.t, expr, name)
	require.Eventually(o.t, func() bool {
		s := scrape(o.t, o.ops)
		return s != nil && s.fires(o.t, expr) == fires
	}, patience, pause, "%s: %s is not %v", name, expr, fires)
}

// reads waits for the value of a series.
func (o *outage) reads(metric, label, value string, is func(float64) bool) {
	o.t.Helper()
	require.Eventually(o.t, func() bool {
		got := scrape(o.t, o.ops).values(metric, label, value)
		return len(got) == 1 && is(got[0])
	}, patience, pause, "%s{%s=%q}", metric, label, value)
}

// settled waits until every order is accepted and the gate is open again.
func (o *outage) settled() {
	o.t.Helper()
	accepted := func(v float64) bool { return v == float64(o.orders) }
	o.reads("orderpost_orders_total", "outcome", "accepted", accepted)
	if open := scrape(o.t, o.ops).values("orderpost_gate_open", "", ""); open[0] == 0 {
		o.enqueue(1) // a gate on trial opens by an order, and the last one came before the trial
		o.reads("orderpost_orders_total", "outcome", "accepted", accepted)
	}
	o.reads("orderpost_gate_open", "", "", func(v float64) bool { return v == 1 })
}

func (o *outage) setKey(method, body string) {
	o.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.api+"/_sandbox/keys/sandbox-key", strings.NewReader(body))
	require.NoError(o.t, err)
	resp, err := client.Do(req)
	require.NoError(o.t, err)
	defer func() { _, _ = io.Copy(io.Discard, resp.Body); _ = resp.Body.Close() }()
	require.Equal(o.t, http.StatusNoContent, resp.StatusCode)
}

// TestAlertsThroughAnOutage scrapes a worker while its API breaks down, answers
// nonsense and revokes the key, and while its broker is restarted: each time the condition of the alert comes and goes, nothing else
// holds the pool afterwards, and every order is accepted in the end.
func TestAlertsThroughAnOutage(t *testing.T) {
	dir := t.TempDir()
	broker, err := embedded.Start(embedded.Config{Dir: dir, Listen: "127.0.0.1:0", NoSync: true})
	require.NoError(t, err)
	stop := func() { broker.Stop() }
	t.Cleanup(func() { stop() })
	addr := strings.TrimPrefix(broker.URL, "nats://")

	settings, url := api(t)
	for name, value := range map[string]string{
		"ORDERPOST_NATS_URL": "nats://" + broker.Token + "@" + addr, "ORDERPOST_OPS_ADDR": "127.0.0.1:0",
		"ORDERPOST_BREAKER_MIN": "4", "ORDERPOST_BREAKER_OPEN": "100ms", "ORDERPOST_PROBE_DELAY": "20ms", "ORDERPOST_HOLD_RETRY": "100ms",
		"ORDERPOST_RETRY_BASE": "10ms", "ORDERPOST_RETRY_DELAY_BASE": "100ms", "ORDERPOST_RETRY_DELAY_MAX": "500ms",
		"ORDERPOST_REFUSAL_QUIET": "200ms", "ORDERPOST_REQUEST_TIMEOUT": "2s", "ORDERPOST_HEADER_TIMEOUT": "1s",
	} {
		settings[name] = value
	}
	w := startWorker(t, settings)
	served := w.saw(&w.errOut, `"url":"http://`)
	address, _, _ := strings.Cut(served, `"`)
	o := &outage{t: t, settings: settings, api: url, ops: "http://" + address, exprs: make(map[string]string)}
	for _, a := range readAlerts(t) {
		o.exprs[a.Alert] = a.Expr
	}
	conditions := []string{"OrderpostAPIDown", "OrderpostAnswerUnreadable", "OrderpostRefusalRun", "OrderpostKeyDenied", "OrderpostBrokerLost", "OrderpostHeld"}
	calm := func() {
		t.Helper()
		o.settled()
		for _, name := range conditions {
			o.waitFor(name, false)
		}
	}
	o.enqueue(10)
	calm()

	for _, c := range []struct{ alert, breaks, mends string }{
		{"OrderpostAPIDown", `{"down":"drop"}`, `{"down":"up"}`},
		{"OrderpostAnswerUnreadable", `{"fault-garbage":1}`, `{"fault-garbage":0}`},
	} {
		change(t, url, c.breaks)
		o.enqueue(40)
		o.waitFor(c.alert, true)
		o.reads("orderpost_pending_orders", "", "", func(v float64) bool { return v > 0 })
		change(t, url, c.mends)
		calm()
	}

	o.setKey(http.MethodDelete, "")
	o.enqueue(10)
	o.waitFor("OrderpostKeyDenied", true)
	o.reads("orderpost_attempts_total", "verdict", "denied", func(v float64) bool { return v > 0 })
	o.setKey(http.MethodPut, `{"secret":"sandbox-secret"}`)
	calm()

	broker.Stop()
	o.waitFor("OrderpostBrokerLost", true)
	require.Empty(t, scrape(t, o.ops).values("orderpost_pending_orders", "", ""), "nobody knows")
	again, err := embedded.Start(embedded.Config{Dir: dir, Listen: addr, NoSync: true})
	require.NoError(t, err)
	stop = again.Stop
	o.waitFor("OrderpostBrokerLost", false)
	o.enqueue(10)
	calm()

	require.Len(t, ledger(t, url), o.orders)
	require.Equal(t, program.ExitDone, w.end())
}
