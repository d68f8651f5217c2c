package ops

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// families gathers our own metrics by their names.
func families(t *testing.T, reg *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := reg.Gather()
	require.NoError(t, err)
	ours := make(map[string]*dto.MetricFamily)
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), namespace+"_") {
			ours[f.GetName()] = f
		}
	}
	return ours
}

// values gives a family's samples by their label values, joined by a comma.
func values(f *dto.MetricFamily) map[string]float64 {
	out := make(map[string]float64)
	for _, m := range f.GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, l.GetValue())
		}
		out[strings.Join(labels, ",")] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	return out
}

// full is a worker about which everything is known.
func full() Snapshot {
	return Snapshot{
		Started: true, Connected: true, InFlight: 3, Slots: 64, LeaseLosses: 2,
		Gate:  Gate{Open: true, InFlight: 2, Limit: 8, Waiting: 1, Rate: 2.5},
		Clock: &Clock{Offset: -1500 * time.Millisecond, Error: 20 * time.Millisecond},
		Sizes: &Sizes{Pending: 7, OldestPending: time.Now().Add(-time.Minute), Letters: 4},
	}
}

func TestMetricsKeepTheConventions(t *testing.T) {
	reg, _ := newMetrics(full)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestLabelValuesExistFromTheStart(t *testing.T) {
	reg, _ := newMetrics(nil)
	ours := families(t, reg)
	zero := func(labels ...string) map[string]float64 {
		out := make(map[string]float64)
		for _, l := range labels {
			out[l] = 0
		}
		return out
	}
	var outcomes, verdicts []string
	for _, o := range order.Outcomes() {
		outcomes = append(outcomes, o.String())
	}
	for _, v := range order.Verdicts() {
		verdicts = append(verdicts, v.String())
	}
	for name, want := range map[string]map[string]float64{
		"orders_total":        zero(outcomes...),
		"attempts_total":      zero(verdicts...),
		"returned_total":      zero("delay", "hand-back", "merge"),
		"redeliveries_total":  zero("true", "false"),
		"gate_closings_total": zero(testBlocks...),
		"gate_block":          zero("breaker,trial", "breaker,shut", "hold,trial", "hold,shut"),
		"gate_open":           zero(""),
		"lease_losses_total":  zero(""),
		"in_flight_orders":    zero(""),
		"broker_connected":    zero(""),
	} {
		require.Equal(t, want, values(ours["orderpost_"+name]), name)
	}
}

func TestWhatIsNotKnownIsNotClaimed(t *testing.T) {
	reg, _ := newMetrics(nil)
	ours := families(t, reg)
	for _, name := range []string{"pending_orders", "oldest_pending_age_seconds", "dead_letters", "clock_offset_seconds"} {
		require.NotContains(t, ours, "orderpost_"+name)
	}
}

func TestHistogramsAreNativeAndClassic(t *testing.T) {
	reg, m := newMetrics(nil)
	m.Took(300 * time.Millisecond)
	m.Attempted(Attempt{Verdict: order.Accepted, Duration: 20 * time.Millisecond, Waited: time.Millisecond, Bytes: 500})
	ours := families(t, reg)
	for name, sum := range map[string]float64{
		"enqueue_to_settled_seconds": .3, "request_duration_seconds": .02, "gate_wait_seconds": .001, "request_size_bytes": 500,
	} {
		h := ours["orderpost_"+name].GetMetric()[0].GetHistogram()
		require.NotEmpty(t, h.GetBucket(), "%s: classic buckets", name)
		require.NotEmpty(t, h.GetPositiveSpan(), "%s: native buckets", name)
		require.EqualValues(t, 1, h.GetSampleCount(), name)
		require.InDelta(t, sum, h.GetSampleSum(), 1e-9, name)
	}
}

func TestEventsAreCounted(t *testing.T) {
	reg, m := newMetrics(nil)
	m.Settled(order.OutcomeAccepted)
	m.Settled(order.OutcomeAccepted)
	m.Settled(order.OutcomeUnknown)
	m.Attempted(Attempt{Verdict: order.Unsure})
	m.Returned(order.ActHandBack)
	m.Redelivered(false)
	ours := families(t, reg)
	require.EqualValues(t, 2, values(ours["orderpost_orders_total"])["accepted"])
	require.EqualValues(t, 1, values(ours["orderpost_orders_total"])["unknown"])
	require.EqualValues(t, 1, values(ours["orderpost_attempts_total"])["unsure"])
	require.EqualValues(t, 1, values(ours["orderpost_returned_total"])["hand-back"])
	require.Equal(t, map[string]float64{"true": 0, "false": 1}, values(ours["orderpost_redeliveries_total"]))
}

func TestAClosingIsCountedOnce(t *testing.T) {
	reg, m := newMetrics(nil)
	for _, standing := range [][]string{
		{"breaker"}, {"breaker"}, // from shut to trial
		{"breaker", "hold", "hold"}, // two holds
		{"hold"}, {}, {"breaker"},
	} {
		m.GateChanged(standing)
	}
	require.Equal(t, map[string]float64{"breaker": 2, "hold": 1}, values(families(t, reg)["orderpost_gate_closings_total"]))
}

func TestAScrapeAsksTheWorker(t *testing.T) {
	now := full()
	reg, _ := newMetrics(func() Snapshot { return now })
	one := func(name string) float64 { return values(families(t, reg)["orderpost_"+name])[""] }
	for name, want := range map[string]float64{
		"broker_connected": 1, "draining": 0, "in_flight_orders": 3, "slots": 64, "lease_losses_total": 2,
		"gate_open": 1, "in_flight_requests": 2, "in_flight_requests_limit": 8, "gate_waiting_orders": 1, "rate_limit_requests": 2.5,
		"clock_offset_seconds": -1.5, "clock_offset_error_seconds": .02, "pending_orders": 7, "dead_letters": 4,
	} {
		require.InDelta(t, want, one(name), 1e-9, name)
	}
	require.GreaterOrEqual(t, one("oldest_pending_age_seconds"), 60.0)

	now.Gate.Open, now.Gate.Blocks = false, []Block{{Name: "hold", Stage: "shut", Reason: "deploy"}, {Name: "hold", Stage: "shut", Reason: "lunch"}}
	now.Sizes.OldestPending = time.Now().Add(time.Hour) // the broker's clock is ahead
	require.Equal(t, map[string]float64{"breaker,trial": 0, "breaker,shut": 0, "hold,trial": 0, "hold,shut": 1},
		values(families(t, reg)["orderpost_gate_block"]))
	require.Zero(t, one("gate_open"))
	require.Zero(t, one("oldest_pending_age_seconds"))
	now.Sizes.OldestPending = time.Time{} // nothing is pending
	require.Zero(t, one("oldest_pending_age_seconds"))
}

func TestBuildInfo(t *testing.T) {
	reg, _ := newMetrics(nil)
	m := families(t, reg)["orderpost_build_info"].GetMetric()[0]
	require.EqualValues(t, 1, m.GetGauge().GetValue())
	require.Contains(t, m.String(), "v1.2.3")
}
