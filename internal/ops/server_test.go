package ops

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadiness(t *testing.T) {
	held := []Block{{Name: "credentials", Stage: "shut", Reason: "the API refuses the key <K…>"}}
	for name, c := range map[string]struct {
		now     Snapshot
		status  int
		reasons []string
	}{
		"starting":                  {Snapshot{}, 503, []string{"starting"}},
		"stopped while starting":    {Snapshot{Draining: true}, 503, []string{"draining: the worker stops and takes nothing new"}},
		"working":                   {Snapshot{Started: true, Connected: true, Gate: Gate{Open: true}}, 200, []string{}},
		"held by the API":           {Snapshot{Started: true, Connected: true, Gate: Gate{Blocks: held}}, 200, []string{}},
		"a stream is missing":       {Snapshot{Started: true, Connected: true, Missing: "stream ORDERS is missing"}, 503, []string{"stream ORDERS is missing"}},
		"broker out of reach":       {Snapshot{Started: true, Gate: Gate{Open: true}}, 503, []string{"not connected to the broker"}},
		"draining":                  {Snapshot{Started: true, Connected: true, Draining: true}, 503, []string{"draining: the worker stops and takes nothing new"}},
		"draining without broker":   {Snapshot{Started: true, Draining: true}, 503, []string{"draining: the worker stops and takes nothing new", "not connected to the broker"}},
		"held, broker out of reach": {Snapshot{Started: true, Gate: Gate{Blocks: held}}, 503, []string{"not connected to the broker"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(o *ServerOptions) { o.State = func() Snapshot { return c.now } })
			status, kind, body := get(t, s.URL()+"/readyz")
			require.Equal(t, c.status, status)
			require.Equal(t, "application/json", kind)
			var r Readiness
			require.NoError(t, json.Unmarshal([]byte(body), &r))
			require.Equal(t, status == http.StatusOK, r.Ready)
			require.Equal(t, c.reasons, r.Reasons)
			require.Equal(t, c.now.Gate.Open, r.GateOpen)
			require.Len(t, r.Held, len(c.now.Gate.Blocks))
			for _, b := range c.now.Gate.Blocks {
				require.Contains(t, body, b.Reason, "people read it as it is")
			}
			require.NotContains(t, body, "null")

			status, _, body = get(t, s.URL()+"/livez")
			require.Equal(t, http.StatusOK, status, "alive whatever the state")
			require.Equal(t, "ok\n", body)
		})
	}
}

func TestMetricsAreServed(t *testing.T) {
	s := serve(t, nil)
	status, kind, body := get(t, s.URL()+"/metrics")
	require.Equal(t, http.StatusOK, status)
	require.True(t, strings.HasPrefix(kind, "text/plain"), kind)
	require.Contains(t, body, `orderpost_orders_total{outcome="accepted"} 0`)
	require.Contains(t, body, "go_goroutines")
}

func TestPProfIsOffUnlessSet(t *testing.T) {
	paths := []string{"/debug/pprof/", "/debug/pprof/goroutine", "/debug/pprof/symbol", "/debug/pprof/trace?seconds=0.01"}
	off := serve(t, nil)
	for _, path := range paths {
		status, _, _ := get(t, off.URL()+path)
		require.Equal(t, http.StatusNotFound, status, path)
	}
	on := serve(t, func(o *ServerOptions) { o.PProf = true })
	for _, path := range paths {
		status, _, _ := get(t, on.URL()+path)
		require.Equal(t, http.StatusOK, status, path)
	}
	status, _, _ := get(t, on.URL()+"/debug/pprof/cmdline")
	require.Equal(t, http.StatusNotFound, status)
}

func TestATakenAddressIsAnError(t *testing.T) {
	first := serve(t, nil)
	reg, _ := newMetrics(nil)
	_, err := Listen(t.Context(), ServerOptions{Addr: strings.TrimPrefix(first.URL(), "http://"), Metrics: reg, State: full})
	require.ErrorContains(t, err, "listen")
}

func TestStopTwiceFreesTheAddress(t *testing.T) {
	first := serve(t, nil)
	first.Stop()
	first.Stop()
	second := serve(t, func(o *ServerOptions) { o.Addr = strings.TrimPrefix(first.URL(), "http://") })
	require.Equal(t, first.URL(), second.URL())
}

func TestStopWaitsForAScrape(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	s := serve(t, func(o *ServerOptions) {
		o.State = func() Snapshot {
			close(asked)
			<-answer
			return full()
		}
	})
	got := make(chan int, 1)
	go func() {
		status, _, _ := get(t, s.URL()+"/readyz")
		got <- status
	}()
	<-asked
	stopped := make(chan struct{})
	go func() {
		s.Stop()
		close(stopped)
	}()
	close(answer)
	require.Equal(t, http.StatusOK, <-got)
	<-stopped
}
