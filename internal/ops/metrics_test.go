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
		Failures: Failures{Results: WriteFailures{Refused: 1, Unconfirmed: 2}, Letters: WriteFailures{Refused: 3, Unconfirmed: 4}},
		Filed:    map[order.Outcome]uint64{order.OutcomeUnknown: 9},
		Gate:     Gate{Open: true, InFlight: 2, Limit: 8, Waiting: 1, Rate: 2.5},
		Clock:    &Clock{Offset: -1500 * time.Millisecond, Error: 20 * time.Millisecond},
		Sizes:    &Sizes{Pending: 7, Waiting: 5, OldestDue: time.Now().Add(-time.Minute), Letters: 4},
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
		"orders_total":             zero(outcomes...),
		"attempts_total":           zero(verdicts...),
		"returned_total":           zero("delay", "hand-back", "merge"),
		"redeliveries_total":       zero("true", "false"),
		"gate_closings_total":      zero(testBlocks...),
		"gate_block":               zero("breaker,trial", "breaker,shut", "hold,trial", "hold,shut"),
		"gate_open":                zero(""),
		"scaling_orders":           zero(""),
		"publish_failures_total":   zero("refused,results", "unconfirmed,results", "refused,dead_letters", "unconfirmed,dead_letters"),
		"dead_letters_filed_total": zero("rejected", "exhausted", "expired", "invalid", "poison", "unknown"),
		"lease_losses_total":       zero(""),
		"poisoned_orders_total":    zero(""),
		"in_flight_orders":         zero(""),
		"broker_connected":         zero(""),
	} {
		require.Equal(t, want, values(ours["orderpost_"+name]), name)
	}
}

func TestWhatIsNotKnownIsNotClaimed(t *testing.T) {
	reg, _ := newMetrics(nil)
	ours := families(t, reg)
	for _, name := range []string{"pending_orders", "oldest_due_timestamp_seconds", "dead_letters", "clock_offset_seconds"} {
		require.NotContains(t, ours, "orderpost_"+name)
	}
}

func TestHistogramsAreNativeAndClassic(t *testing.T) {
	reg, m := newMetrics(nil)
	m.Took(300*time.Millisecond, "")
	m.Attempted(Attempt{Verdict: order.Accepted, Duration: 20 * time.Millisecond, Waited: time.Millisecond, RateWaited: time.Microsecond, Bytes: 500})
	m.Retrying(time.Second, true)
	ours := families(t, reg)
	for name, sum := range map[string]float64{
		"enqueue_to_settled_seconds": .3, "request_duration_seconds": .02, "gate_wait_seconds": .001, "rate_limit_wait_seconds": 1e-6, "request_size_bytes": 500,
	} {
		h := ours["orderpost_"+name].GetMetric()[0].GetHistogram()
		require.NotEmpty(t, h.GetBucket(), "%s: classic buckets", name)
		require.NotEmpty(t, h.GetPositiveSpan(), "%s: native buckets", name)
		require.EqualValues(t, 1, h.GetSampleCount(), name)
		require.InDelta(t, sum, h.GetSampleSum(), 1e-9, name)
	}
	where := ours["orderpost_retry_wait_seconds"].GetMetric()
	require.Len(t, where, 2, "both exist from the start")
	require.Zero(t, where[0].GetHistogram().GetSampleCount(), "in hand")
	require.EqualValues(t, 1, where[1].GetHistogram().GetSampleSum(), "in the queue")
	require.NotEmpty(t, where[1].GetHistogram().GetPositiveSpan())
}

// TestAttemptsThatDidNotWait: those are no observations of the rate limit.
func TestAttemptsThatDidNotWait(t *testing.T) {
	reg, m := newMetrics(nil)
	m.Attempted(Attempt{Verdict: order.Accepted})
	require.Zero(t, families(t, reg)["orderpost_rate_limit_wait_seconds"].GetMetric()[0].GetHistogram().GetSampleCount())
}

// TestCountingAllocatesNothing: it is done for every order and attempt.
func TestCountingAllocatesNothing(t *testing.T) {
	_, m := newMetrics(nil)
	count := func() {
		m.Settled(order.OutcomeAccepted)
		m.Took(time.Second, "")
		m.Attempted(Attempt{Verdict: order.Accepted, Duration: time.Second, Bytes: 500, RateWaited: time.Second})
		m.Returned(order.ActDelay)
		m.Redelivered(true)
		m.Retrying(time.Second, true)
	}
	count() // the first observation makes a native bucket
	require.Zero(t, testing.AllocsPerRun(100, count))
}

func TestWhatIsInNoSetBreaksNothing(t *testing.T) {
	reg, m := newMetrics(nil)
	m.Attempted(Attempt{})
	m.Settled(order.OutcomeNone)
	require.NotContains(t, values(families(t, reg)["orderpost_attempts_total"]), "")
}

func TestEventsAreCounted(t *testing.T) {
	reg, m := newMetrics(nil)
	m.Settled(order.OutcomeAccepted)
	m.Settled(order.OutcomeAccepted)
	m.Settled(order.OutcomeUnknown)
	m.Attempted(Attempt{Verdict: order.Unsure})
	m.Returned(order.ActHandBack)
	m.LookedUp(order.FoundExists)
	m.Redelivered(false)
	m.Poisoned()
	ours := families(t, reg)
	require.EqualValues(t, 1, values(ours["orderpost_poisoned_orders_total"])[""])
	require.Equal(t, map[string]float64{"nothing": 0, "exists": 1, "rejected": 0, "absent": 0}, values(ours["orderpost_lookups_total"]))
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
		"clock_offset_seconds": -1.5, "clock_offset_error_seconds": .02, "pending_orders": 7, "scaling_orders": 5, "dead_letters": 4,
	} {
		require.InDelta(t, want, one(name), 1e-9, name)
	}
	require.InDelta(t, time.Since(time.Unix(0, 0)).Seconds()-60, one("oldest_due_timestamp_seconds"), 60)
	require.Equal(t, map[string]float64{"refused,results": 1, "unconfirmed,results": 2, "refused,dead_letters": 3, "unconfirmed,dead_letters": 4},
		values(families(t, reg)["orderpost_publish_failures_total"]))
	require.EqualValues(t, 9, values(families(t, reg)["orderpost_dead_letters_filed_total"])["unknown"])

	require.NotContains(t, families(t, reg), "orderpost_broker_info", "there is no connection")
	now.Broker = &Broker{Version: "2.15.2", Verdict: "ok"}
	require.Equal(t, map[string]float64{"ok,2.15.2": 1}, values(families(t, reg)["orderpost_broker_info"]))

	require.NotContains(t, families(t, reg), "orderpost_stream_present", "nobody was asked")
	now.Parts = []Part{{Name: "results", Present: true, Replaced: 2, Precious: true}, {Name: "fleet"}}
	require.Equal(t, map[string]float64{"results": 1, "fleet": 0}, values(families(t, reg)["orderpost_stream_present"]))
	require.Equal(t, map[string]float64{"results": 2}, values(families(t, reg)["orderpost_streams_replaced_total"]))

	now.Gate.Open, now.Gate.Blocks = false, []Block{{Name: "hold", Stage: "shut", Reason: "deploy"}, {Name: "hold", Stage: "shut", Reason: "lunch"}}
	require.Equal(t, map[string]float64{"breaker,trial": 0, "breaker,shut": 0, "hold,trial": 0, "hold,shut": 1},
		values(families(t, reg)["orderpost_gate_block"]))
	require.Zero(t, one("gate_open"))
	require.Zero(t, one("fleet_held"), "no person did")
	now.Held = true
	require.EqualValues(t, 1, one("fleet_held"))
	now.Sizes.OldestDue = time.Time{} // nothing is due
	require.NotContains(t, families(t, reg), "orderpost_oldest_due_timestamp_seconds")
}

func TestBuildInfo(t *testing.T) {
	reg, _ := newMetrics(nil)
	m := families(t, reg)["orderpost_build_info"].GetMetric()[0]
	require.EqualValues(t, 1, m.GetGauge().GetValue())
	require.Contains(t, m.String(), "v1.2.3")
}
