package ops

import (
	"io"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/testing/patient"
)

func TestMain(m *testing.M) { patient.Main(m) }

var (
	testBlocks = []string{"breaker", "hold"}
	testStages = []string{"trial", "shut"}
)

// newMetrics makes metrics whose worker looks as state says.
func newMetrics(state func() Snapshot) (*prometheus.Registry, *Metrics) {
	reg := NewRegistry()
	return reg, New(reg, Options{Version: "v1.2.3", Blocks: testBlocks, Stages: testStages, State: state})
}

// serve starts a server for one test.
func serve(t *testing.T, change func(*ServerOptions)) *Server {
	t.Helper()
	reg, _ := newMetrics(nil)
	o := ServerOptions{Addr: "127.0.0.1:0", Metrics: reg, State: func() Snapshot { return Snapshot{} }, Log: zerolog.Nop()}
	if change != nil {
		change(&o)
	}
	s, err := Listen(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

func get(t *testing.T, url string) (status int, contentType, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	require.NoError(t, err)
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, r.Header.Get("Content-Type"), string(text)
}
