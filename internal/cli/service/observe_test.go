package service

import (
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/ops"
	"orderpost/internal/order"
	"orderpost/internal/submit"
	"orderpost/internal/submit/gate"
)

// heard keeps what an observer behind ours is told.
type heard struct {
	attempts int
	gates    int
	settled  int
}

func (h *heard) Attempted(submit.AttemptEvent) { h.attempts++ }
func (h *heard) GateChanged(gate.State)        { h.gates++ }
func (h *heard) Settled(*order.Record, string) { h.settled++ }

// exposition is what a scrape shows.
func exposition(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	var out strings.Builder
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&out, f)
		require.NoError(t, err)
	}
	return out.String()
}

// tellAll reports one of everything.
func tellAll(o *observer) {
	stored := time.Now()
	o.Attempted(submit.AttemptEvent{Verdict: order.Accepted, Duration: time.Second, RequestBytes: 100, RateWait: 2 * time.Second})
	o.Retrying(time.Second, false)
	o.LookedUp(order.FoundAbsent)
	o.Retrying(time.Minute, true)
	o.GateChanged(gate.State{Blocks: []gate.BlockState{{Name: "hold: lunch"}, {Name: gate.BlockBreaker}}})
	o.Settled(&order.Record{Word: "accepted", Position: order.Position{EnqueuedAt: stored}, SettledAt: stored.Add(2 * time.Second)}, "")
	o.Settled(&order.Record{Word: "accepted", Position: order.Position{EnqueuedAt: stored}, SettledAt: stored.Add(-time.Hour)}, "") // repeats an old order
	o.Settled(&order.Record{Word: order.Retrying}, "")
	o.Settled(&order.Record{Word: "unknown", Reason: "poison", Position: order.Position{EnqueuedAt: stored}, SettledAt: stored}, "")
	o.Settled(&order.Record{Word: "unknown", Reason: "poison", Position: order.Position{EnqueuedAt: stored.Add(time.Hour)}, SettledAt: stored}, "") // withheld for it: nobody died
	o.Returned(order.ActDelay)
	o.Redelivered(true)
}

func TestObserverCountsAndPassesOn(t *testing.T) {
	reg := prometheus.NewRegistry()
	metrics := ops.New(reg, ops.Options{Blocks: gate.BlockNames(), Stages: stageNames()})
	var h heard
	tellAll(&observer{Metrics: metrics, next: &h})
	require.Equal(t, heard{attempts: 1, gates: 1, settled: 5}, h)

	text := exposition(t, reg)
	for _, line := range []string{
		`orderpost_attempts_total{verdict="accepted"} 1`,
		`orderpost_request_size_bytes_sum 100`,
		`orderpost_retry_wait_seconds_sum{where="hand"} 1`,
		`orderpost_retry_wait_seconds_sum{where="queue"} 60`,
		`orderpost_rate_limit_wait_seconds_sum 2`,
		`orderpost_orders_total{outcome="accepted"} 2`,
		`orderpost_orders_total{outcome="unknown"} 2`,
		`orderpost_poisoned_orders_total 1`,
		`orderpost_enqueue_to_settled_seconds_count 2`,
		`orderpost_enqueue_to_settled_seconds_sum 2`,
		`orderpost_gate_closings_total{block="hold"} 1`,
		`orderpost_gate_closings_total{block="breaker"} 1`,
		`orderpost_lookups_total{found="absent"} 1`,
		`orderpost_returned_total{action="delay"} 1`,
		`orderpost_redeliveries_total{explained="true"} 1`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.NotContains(t, text, "lunch", "a hold's reason is free text")
}

func TestObserverWithNobodyBehind(t *testing.T) {
	tellAll(&observer{Metrics: ops.New(prometheus.NewRegistry(), ops.Options{})})
}

func TestHoldIsOneOfTheGatesNames(t *testing.T) {
	require.Contains(t, gate.BlockNames(), holdBlock)
}

func TestDefaultOpsAddrIsTheTags(t *testing.T) {
	field, ok := reflect.TypeFor[Config]().FieldByName("OpsAddr")
	require.True(t, ok)
	require.Equal(t, defaultOpsAddr, field.Tag.Get("envDefault"))
}

func TestOpsSettingsAreChecked(t *testing.T) {
	require.NoError(t, Config{OpsAddr: ""}.validateOps())
	require.NoError(t, Config{OpsAddr: ":9464", PProf: true}.validateOps())
	require.ErrorContains(t, Config{OpsAddr: "9464"}.validateOps(), "ORDERPOST_OPS_ADDR")
	require.ErrorContains(t, Config{PProf: true}.validateOps(), "ORDERPOST_PPROF")
}

// take makes sure that somebody listens on addr: we, or whoever does already.
func take(t *testing.T, addr string) string {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return addr
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestTakenDefaultAddressIsNoReasonNotToWork(t *testing.T) {
	o, err := startOperations(t.Context(), Config{OpsAddr: take(t, defaultOpsAddr)}, Env{Log: zerolog.Nop()})
	require.NoError(t, err)
	require.Nil(t, o.server)
	o.poll(t.Context()) // returns at once: nobody would see the sizes
	o.stop()
}

func TestTakenAddressOfChoiceIsAMistake(t *testing.T) {
	addr := take(t, "127.0.0.1:0")
	_, err := startOperations(t.Context(), Config{OpsAddr: addr}, Env{Log: zerolog.Nop()})
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "ORDERPOST_OPS_ADDR")
	require.ErrorContains(t, err, addr)
}
