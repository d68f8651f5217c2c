package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"orderpost/internal/testing/patient"

	"orderpost/internal/ops/tracing/span"
)

func TestMain(m *testing.M) { patient.Main(m) }

func TestOffIsNothing(t *testing.T) {
	for _, environ := range []map[string]string{
		nil,
		{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
		{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
		{"OTEL_SERVICE_NAME": "shop"},
		{"OTEL_SDK_DISABLED": "True", "OTEL_TRACES_EXPORTER": "console"},
		{"OTEL_SDK_DISABLED": " TRUE ", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
		{"OTEL_TRACES_EXPORTER": "None", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
	} {
		var log bytes.Buffer
		require.Nil(t, Start(t.Context(), Options{Environ: environ, Log: zerolog.New(&log)}), "%v", environ)
		require.Empty(t, log.String(), "%v", environ)
	}
	var off *span.Tracing
	require.Nil(t, off.Tracer())
	require.Nil(t, off.Producer())
	off.Stop()
}

// A platform sets these for all of its programs: none of them stops an order.
func TestWhatCannotBeUsedIsNamed(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json",
	} {
		var log bytes.Buffer
		environ := map[string]string{"OTEL_SDK_DISABLED": "1", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", name: value} // "1" is not true
		require.Nil(t, Start(t.Context(), Options{Environ: environ, Log: zerolog.New(&log)}))
		require.Contains(t, log.String(), name)
		require.Contains(t, log.String(), value)
	}
	for _, environ := range []map[string]string{
		{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}, // the one for traces counts
		{"OTEL_TRACES_EXPORTER": "OTLP", "OTEL_EXPORTER_OTLP_PROTOCOL": "HTTP/Protobuf"},
		{"OTEL_TRACES_EXPORTER": "console, otlp", "OTEL_SDK_DISABLED": "False"},
	} {
		traces := Start(t.Context(), Options{Environ: environ})
		require.NotNil(t, traces, "%v", environ)
		traces.Stop()
	}
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "no-value")
	var log bytes.Buffer
	require.Nil(t, Start(t.Context(), Options{Environ: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, Log: zerolog.New(&log)}))
	require.Contains(t, log.String(), "OTEL_RESOURCE_ATTRIBUTES")
}

// TestAFailingReceiverIsToldOnce, and so is its return.
func TestAFailingReceiverIsToldOnce(t *testing.T) {
	var broken atomic.Bool
	broken.Store(true)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusBadRequest) // one that is not tried again
		}
	}))
	t.Cleanup(receiver.Close)
	var log bytes.Buffer
	traces := Start(t.Context(), Options{Program: "test", Environ: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL}, Log: zerolog.New(&log)})
	header := traces.Producer()
	for range 3 {
		require.Regexp(t, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$", header("A", "batch:1", "ORDERS"))
		require.NoError(t, flush(t.Context(), traces))
	}
	require.Equal(t, 1, strings.Count(log.String(), "cannot be exported"), log.String())
	broken.Store(false)
	header("A", "batch:1", "ORDERS")
	traces.Stop()
	require.Equal(t, 1, strings.Count(log.String(), "exported again"), log.String())
	require.Contains(t, log.String(), `"spans_lost":3`)
}

// TestAConnectionThatSwallows what it is sent is given up after the first timeout.
func TestAConnectionThatSwallows(t *testing.T) {
	var exported atomic.Int64
	receiver := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { exported.Add(1) }))
	t.Cleanup(receiver.Close)
	relay := patient.NewRelay(t, receiver.Listener.Addr().String())
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw}), 0o600))
	var log patient.Buffer
	traces := Start(t.Context(), Options{Program: "test", Log: zerolog.New(&log), Environ: map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "https://" + relay.Addr().String(), "OTEL_EXPORTER_OTLP_CERTIFICATE": ca, "OTEL_EXPORTER_OTLP_TIMEOUT": "5000"}})
	send := func(patience time.Duration) {
		traces.Producer()("A", "batch:1", "ORDERS")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_ = flush(ctx, traces)
	}
	send(time.Minute)
	require.EqualValues(t, 1, exported.Load(), log.String())
	relay.Swallow()
	send(200 * time.Millisecond)
	require.EqualValues(t, 1, exported.Load())
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "cannot be exported") }, time.Minute, time.Millisecond)
	send(time.Minute)
	require.EqualValues(t, 2, exported.Load(), "it has another connection: %s", log.String())
	traces.Stop()
}

// TestTheVariablesOfTheSpecification say where spans go and how. A receiver without room gets them again.
func TestTheVariablesOfTheSpecification(t *testing.T) {
	var got []*http.Request
	var names []string
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got = append(got, r); len(got) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		unpacked, err := gzip.NewReader(r.Body)
		require.NoError(t, err)
		body, err := io.ReadAll(unpacked)
		require.NoError(t, err)
		var batch tracepb.TracesData
		require.NoError(t, proto.Unmarshal(body, &batch))
		for _, s := range batch.ResourceSpans[0].ScopeSpans[0].Spans {
			names = append(names, s.Name)
		}
		w.Header().Set("Content-Type", mediaType)
		_, _ = io.WriteString(w, "\x0a\x0a\x08\x01\x12\x06no tax") // partial_success: one span rejected
	}))
	t.Cleanup(receiver.Close)
	var log bytes.Buffer
	traces := Start(t.Context(), Options{Program: "test", Version: "1.2", Log: zerolog.New(&log), Environ: map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": receiver.URL + "/in", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
		"OTEL_EXPORTER_OTLP_HEADERS": "x-key=a%20b, Authorization=Basic%20Zm9v=", "OTEL_EXPORTER_OTLP_TIMEOUT": "60000"}})
	traces.Producer()("A", "batch:1", "ORDERS")
	traces.Stop()
	require.Len(t, got, 2, log.String())
	require.Equal(t, []string{"create ORDERS"}, names)
	require.Equal(t, []string{"/in", "a b", "Basic Zm9v=", "gzip", "orderpost/1.2"}, []string{got[1].URL.Path, got[1].Header.Get("X-Key"), got[1].Header.Get("Authorization"), got[1].Header.Get("Content-Encoding"), got[1].UserAgent()})
	require.Contains(t, log.String(), "did not take all spans")
	require.Contains(t, log.String(), "no tax")

	for name, value := range map[string]string{"ENDPOINT": "collector:4318", "TRACES_HEADERS": "secret", "TIMEOUT": "10s", "COMPRESSION": "zstd", "CERTIFICATE": "/none", "CLIENT_CERTIFICATE": "/none"} {
		var log bytes.Buffer
		require.Nil(t, Start(t.Context(), Options{Log: zerolog.New(&log), Environ: map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_" + name: value}}))
		require.Contains(t, log.String(), "OTEL_EXPORTER_OTLP_"+name)
		require.NotContains(t, log.String(), "secret")
	}
}

// flush exports what has ended. Its own span only leads to the provider: it never ends, and is not exported.
func flush(ctx context.Context, traces *span.Tracing) error {
	_, s := traces.Tracer().Start(ctx, "flush")
	return s.TracerProvider().(*sdktrace.TracerProvider).ForceFlush(ctx)
}
