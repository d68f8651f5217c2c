package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"orderpost/internal/cli"
)

// span is what matters of one.
type span struct {
	service, name     string
	trace, id, parent string // in hex
	start, end        uint64 // Unix nanoseconds
	attributes        map[string]string
	failed            bool
}

// receiver takes traces as any collector does: OTLP over HTTP with protobuf.
type receiver struct {
	t     *testing.T
	url   string
	mu    sync.Mutex
	spans []span
	raw   strings.Builder
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{t: t}
	server := httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var batch tracepb.TracesData // the bytes of an ExportTraceServiceRequest
	if err != nil || req.URL.Path != "/v1/traces" || proto.Unmarshal(body, &batch) != nil {
		r.t.Errorf("not traces: %s %s", req.Method, req.URL)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.raw.WriteString(batch.String())
	for _, resource := range batch.GetResourceSpans() {
		service := attributes(resource.GetResource().GetAttributes())["service.name"]
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, span{service: service, name: s.GetName(), trace: hex.EncodeToString(s.GetTraceId()),
					id: hex.EncodeToString(s.GetSpanId()), parent: hex.EncodeToString(s.GetParentSpanId()),
					start: s.GetStartTimeUnixNano(), end: s.GetEndTimeUnixNano(), attributes: attributes(s.GetAttributes()),
					failed: s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR})
			}
		}
	}
}

func attributes(list []*common.KeyValue) map[string]string {
	out := make(map[string]string)
	for _, kv := range list {
		out[kv.GetKey()] = kv.GetValue().GetStringValue()
	}
	return out
}

// of gives the spans with a name of one order, and requires so many.
func (r *receiver) of(orderNo, trace, name string, want int) (out []span) {
	r.t.Helper()
	for _, s := range r.spans {
		if s.name == name && (s.attributes["orderpost.order_no"] == orderNo || s.trace == trace) {
			out = append(out, s)
		}
	}
	require.Len(r.t, out, want, "%s of %s", name, orderNo)
	return out
}

// reluctant stands in front of an API and tells every order to come again
// once. It keeps the trace headers of each order.
func reluctant(t *testing.T, target string) (front string, headers func() []string) {
	to, err := url.Parse(target)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &http.Transport{DisableKeepAlives: true}
	var mu sync.Mutex
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			proxy.ServeHTTP(w, r)
			return
		}
		mu.Lock()
		seen = append(seen, r.Header.Get("Traceparent"))
		first := len(seen) == 1
		mu.Unlock()
		if first {
			w.WriteHeader(http.StatusTooEarly)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// TestOneTraceFromTheProducerToTheOutcome: enqueue begins it; the pull, the
// handling, each attempt and the settling lie below it, and the API is told
// which attempt it answers.
func TestOneTraceFromTheProducerToTheOutcome(t *testing.T) {
	r := newReceiver(t)
	settings, target := api(t)
	front, headers := reluctant(t, target)
	settings["OTEL_EXPORTER_OTLP_ENDPOINT"] = r.url
	settings["ORDERPOST_API_URL"] = front
	settings["ORDERPOST_API_TRACEPARENT"] = "true"
	w := startWorker(t, settings)
	code, _, errOut := importFile(t, settings, writeOrders(t, 1), "--wait")
	require.Equal(t, cli.ExitDone, code, errOut)
	require.Equal(t, cli.ExitDone, w.end()) // sends what is left

	const orderNo = "E2E-00000"
	root := r.of(orderNo, "", "create ORDERS_WAITING", 1)[0]
	require.Equal(t, "orderpost-enqueue", root.service)
	require.Empty(t, root.parent)
	receive := r.of(orderNo, root.trace, "receive ORDERS", 1)[0]
	process := r.of(orderNo, root.trace, "process ORDERS", 1)[0]
	attempts := r.of(orderNo, root.trace, "POST", 2)
	settle := r.of(orderNo, root.trace, "settle ORDERS", 1)[0]
	for _, s := range append(attempts, receive, process, settle) {
		require.Equal(t, root.trace, s.trace, s.name)
		require.Equal(t, "orderpost-worker", s.service)
		require.LessOrEqual(t, s.start, s.end, s.name)
	}
	require.Equal(t, root.id, receive.parent)
	require.Equal(t, root.id, process.parent)
	require.Equal(t, "accepted", process.attributes["orderpost.outcome"])
	require.Equal(t, process.id, settle.parent)
	require.LessOrEqual(t, receive.end, process.start)
	require.LessOrEqual(t, attempts[1].end, settle.start)
	for i, want := range []string{"retry", "accepted"} {
		require.Equal(t, process.id, attempts[i].parent)
		require.Equal(t, want, attempts[i].attributes["orderpost.verdict"])
		require.Equal(t, want != "accepted", attempts[i].failed)
		require.Equal(t, "00-"+root.trace+"-"+attempts[i].id+"-01", headers()[i])
	}
	require.Contains(t, w.errOut.String(), `"trace_id":"`+root.trace+`"`)
	for _, secret := range []string{"sandbox-key", "sandbox-secret", "thing, 0"} {
		require.NotContains(t, r.raw.String(), secret)
	}
}

// TestAWorkerWithoutTracesSendsNone: no header is made up, and a producer's is
// passed on only if that is asked for.
func TestAWorkerWithoutTracesSendsNone(t *testing.T) {
	settings, target := api(t)
	front, headers := reluctant(t, target)
	settings["ORDERPOST_API_URL"] = front
	settings["ORDERPOST_API_TRACEPARENT"] = "true"
	w := startWorker(t, settings)
	code, _, errOut := importFile(t, settings, writeOrders(t, 1), "--wait")
	require.Equal(t, cli.ExitDone, code, errOut)
	require.Equal(t, []string{"", ""}, headers())
	require.NotContains(t, w.errOut.String(), "trace_id")
}

// TestTraceSettingsOfAPlatformStopNothing: they are named, and orders go on without traces.
func TestTraceSettingsOfAPlatformStopNothing(t *testing.T) {
	settings, _ := api(t)
	settings["OTEL_TRACES_EXPORTER"] = "zipkin"
	w := startWorker(t, settings)
	require.Contains(t, w.errOut.String(), "OTEL_TRACES_EXPORTER")
	code, _, errOut := importFile(t, settings, writeOrders(t, 1), "--wait")
	require.Equal(t, cli.ExitDone, code, errOut)
	require.Contains(t, errOut, "OTEL_TRACES_EXPORTER")
}
