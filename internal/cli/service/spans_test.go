package service_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/cli/service"
	"orderpost/internal/ops/tracing/span"
	"orderpost/internal/testing/queuetest"
)

const (
	clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan  = "00f067aa0ba902b7"
)

// bring posts an order to the worker's door as a client does whose span is sampled or not.
func (s *shop) bring(orderNo, flags string) {
	s.t.Helper()
	var door string
	s.eventually(func() bool { door = s.log.find("the HTTP door is open", "url"); return door != "" }, "the door does not open")
	req, err := http.NewRequest(http.MethodPost, door+"/v1/orders", strings.NewReader(string(queuetest.Body(orderNo))))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", orderNo)
	req.Header.Set("traceparent", "00-"+clientTrace+"-"+clientSpan+"-"+flags)
	answer, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusCreated, answer.StatusCode, string(text))
}

// exemplars scrapes the metrics as Prometheus does where it stores exemplars, and returns
// the exemplars of a histogram's buckets.
func (s *shop) exemplars(histogram string) (found []string) {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodGet, s.ops+"/metrics", http.NoBody)
	require.NoError(s.t, err)
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
	answer, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(s.t, err)
	require.Contains(s.t, answer.Header.Get("Content-Type"), "application/openmetrics-text")
	require.True(s.t, strings.HasSuffix(string(text), "# EOF\n"))
	for line := range strings.Lines(string(text)) {
		if _, exemplar, is := strings.Cut(line, " # "); is && strings.HasPrefix(line, histogram+"_bucket") {
			found = append(found, strings.Fields(exemplar)[0])
		}
	}
	return found
}

func openTraced(t *testing.T, sampler sdktrace.Sampler) (s *shop, spans *tracetest.InMemoryExporter) {
	spans = tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans), sdktrace.WithSampler(sampler))
	return open(t, func(s *shop) {
		s.trace = provider.Tracer("test")
		s.early.Store(1)
	}, func(cfg *service.Config) { cfg.Gateway.Listen = "127.0.0.1:0" }), spans
}

// TestTheSpansOfOneOrder: each has the name, the kind and the attributes of OpenTelemetry's
// conventions, from the door to the outcome, and the histograms point at their trace.
func TestTheSpansOfOneOrder(t *testing.T) {
	s, spans := openTraced(t, sdktrace.AlwaysSample())
	s.bring("A", "01")
	s.eventually(func() bool { return s.value(`orderpost_orders_total{outcome="accepted"}`) == 1 }, "the order is not accepted")
	s.stop() // ends the last span
	api, err := url.Parse(s.log.find("posts to the API, which answers and knows the key; the secret is not tested until the first order is posted", "api"))
	require.NoError(t, err)

	type attributes = map[attribute.Key]string
	message := func(op string) attributes {
		return attributes{"messaging.system": "nats", "messaging.operation.name": op, "messaging.operation.type": op,
			"messaging.destination.name": "ORDERS", "messaging.message.id": "local:A"}
	}
	request := func(status, resend, failure string) attributes {
		return attributes{"http.request.method": "POST", "server.address": "127.0.0.1", "server.port": api.Port(), "url.full": api.String() + "/v1/order/create",
			"network.protocol.version": "1.1", "http.response.status_code": status, "http.request.resend_count": resend, "error.type": failure}
	}
	want := []struct {
		name, parent string
		kind         trace.SpanKind
		links        int
		has          attributes
	}{
		{span.Submit, "", trace.SpanKindServer, 0, attributes{"http.request.method": "POST", "http.route": "/v1/orders", "url.path": "/v1/orders",
			"url.scheme": "http", "http.response.status_code": "201", "error.type": ""}},
		{"send ORDERS", span.Submit, trace.SpanKindProducer, 0, message("send")},
		{"receive ORDERS", "send ORDERS", trace.SpanKindClient, 1, message("receive")},
		{"process ORDERS", "send ORDERS", trace.SpanKindConsumer, 1, message("process")},
		{span.Post, "process ORDERS", trace.SpanKindClient, 0, request("425", "", "425")},
		{span.Post, "process ORDERS", trace.SpanKindClient, 0, request("200", "1", "")},
		{"settle ORDERS", "process ORDERS", trace.SpanKindClient, 0, message("settle")},
	}
	var got tracetest.SpanStubs
	s.eventually(func() bool { got = spans.GetSpans(); return len(got) >= len(want) }, "spans are missing")
	require.Len(t, got, len(want))
	slices.SortStableFunc(got, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	names := make(map[trace.SpanID]string)
	for _, sp := range got {
		names[sp.SpanContext.SpanID()] = sp.Name
		require.Equal(t, clientTrace, sp.SpanContext.TraceID().String())
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(sp tracetest.SpanStub) bool { return sp.Name == w.name })
		require.GreaterOrEqual(t, i, 0, "%s in %v", w.name, names)
		sp := got[i]
		got = slices.Delete(got, i, i+1)
		require.Equal(t, w.kind, sp.SpanKind, w.name)
		require.Equal(t, w.parent, names[sp.Parent.SpanID()], w.name)
		require.Len(t, sp.Links, w.links, w.name)
		for _, l := range sp.Links {
			require.Equal(t, "send ORDERS", names[l.SpanContext.SpanID()])
		}
		set := attribute.NewSet(sp.Attributes...)
		for key, value := range w.has {
			v, _ := set.Value(key)
			require.Equal(t, value, v.String(), "%s: %s", w.name, key)
		}
	}
	require.Empty(t, got)
}

// TestExemplars: a histogram points at a trace that was sampled, and only at one.
func TestExemplars(t *testing.T) {
	s, _ := openTraced(t, sdktrace.ParentBased(sdktrace.AlwaysSample()))
	count := func(n float64) {
		t.Helper()
		s.eventually(func() bool { return s.value(`orderpost_orders_total{outcome="accepted"}`) == n }, "an order is not accepted")
	}
	s.bring("A", "00")
	count(1)
	for _, histogram := range []string{"orderpost_enqueue_to_settled_seconds", "orderpost_request_duration_seconds"} {
		require.Empty(t, s.exemplars(histogram), histogram)
	}
	s.bring("B", "01")
	count(2)
	for _, histogram := range []string{"orderpost_enqueue_to_settled_seconds", "orderpost_request_duration_seconds"} {
		require.Equal(t, []string{`{trace_id="` + clientTrace + `"}`}, s.exemplars(histogram), histogram)
	}
}
