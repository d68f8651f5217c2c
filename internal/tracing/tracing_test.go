package tracing

import (
	"bytes"
	"context"
	"encoding/pem"
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

	"orderpost/internal/patient"
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
	var off *Tracing
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
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.URL)
	var log bytes.Buffer
	traces := Start(t.Context(), Options{Program: "test", Environ: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL}, Log: zerolog.New(&log)})
	header := traces.Producer()
	for range 3 {
		require.Regexp(t, "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$", header("A", "batch:1", "ORDERS"))
		require.NoError(t, traces.provider.ForceFlush(t.Context()))
	}
	require.Equal(t, 1, strings.Count(log.String(), "cannot be exported"), log.String())
	broken.Store(false)
	header("A", "batch:1", "ORDERS")
	traces.Stop()
	require.Equal(t, 1, strings.Count(log.String(), "exported again"), log.String())
	require.Contains(t, log.String(), `"spans_lost":3`)
}

// TestAConnectionThatSwallows what it is sent, which a request over HTTP/2 does not outlive, is
// given up after the first timeout.
func TestAConnectionThatSwallows(t *testing.T) {
	for _, two := range []bool{false, true} {
		var exported atomic.Int64
		receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 == two {
				exported.Add(1)
			}
		}))
		receiver.EnableHTTP2 = two
		receiver.StartTLS()
		t.Cleanup(receiver.Close)
		relay := patient.NewRelay(t, receiver.Listener.Addr().String())
		ca := filepath.Join(t.TempDir(), "ca.pem")
		require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: receiver.Certificate().Raw}), 0o600))
		endpoint := "https://" + relay.Addr().String()
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", ca)
		t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "5000")
		var log patient.Buffer
		traces := Start(t.Context(), Options{Program: "test", Environ: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, Log: zerolog.New(&log)})
		send := func(patience time.Duration) {
			traces.Producer()("A", "batch:1", "ORDERS")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_ = traces.provider.ForceFlush(ctx)
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
}
