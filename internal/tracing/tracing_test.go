package tracing

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

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
	} {
		traces, err := Start(t.Context(), Options{Environ: environ})
		require.NoError(t, err)
		require.Nil(t, traces, "%v", environ)
	}
	var off *Tracing
	require.Nil(t, off.Tracer())
	require.Nil(t, off.Producer())
	off.Stop()
}

func TestWhatCannotBeUsedIsNamed(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "zipkin", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json",
	} {
		environ := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", name: value}
		_, err := Start(t.Context(), Options{Environ: environ})
		require.ErrorContains(t, err, name)
		require.ErrorContains(t, err, value)
	}
	traces, err := Start(t.Context(), Options{Environ: map[string]string{"OTEL_TRACES_EXPORTER": "otlp",
		"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf"}})
	require.NoError(t, err, "the one for traces counts")
	traces.Stop()
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
	traces, err := Start(t.Context(), Options{Program: "test", Environ: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL}, Log: zerolog.New(&log)})
	require.NoError(t, err)
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
