package alerts

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"orderpost/internal/audit"
	"orderpost/internal/fleet/imports"
	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// The longest that alerts may take: the window of the rule with the longest,
// and what it asks for to last.
const (
	rests = 20 * time.Minute
	fires = 75 * time.Minute
	ends  = 75 * time.Minute
)

// TestEveryAlertOnLiveScrapes: workers are scraped through a calm, an outage
// and its end. Through the calm nothing fires, by the outage its alert does and
// none that it does not explain, and some time after it is over nothing does.
func TestEveryAlertOnLiveScrapes(t *testing.T) {
	for name := range loadAlerts(t, readFile(t)) {
		o, known := outages[name]
		require.True(t, known, "nothing makes %s fire", name)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.run(t, name)
		})
	}
}

func (o outage) run(t *testing.T, name string) {
	r := newRig(t, o.settings)
	for _, calm := range []time.Duration{interval, rests - interval, rests} { // orders come at its beginning and at its end
		for r.prom.passed() < calm {
			r.prom.tick()
			require.Empty(t, r.prom.firing(), "in calm")
		}
		r.publish(20)
		r.settled()
	}

	o.breaks(r)
	began := r.prom.passed()
	fired := r.until(began+fires, func(firing []string) bool {
		require.Subset(t, append(o.also, name), firing)
		if o.lasts != nil {
			o.lasts(r)
		}
		return slices.Contains(firing, name)
	}, "%s does not fire", name)

	o.heals(r)
	healed := r.prom.passed()
	cleared := r.until(healed+ends, func(firing []string) bool { return len(firing) == 0 }, "%s is healed, and alerts still fire", name)
	audit, err := audit.Audit(t.Context(), r.q)
	require.NoError(t, err)
	require.True(t, audit.Balanced(), "%+v", audit)
	t.Logf("fired %s after the fault, clear %s after its end", fired-began, cleared-healed)
}

// TestPlannedWaitsFireNothing: what people planned pages nobody.
func TestPlannedWaitsFireNothing(t *testing.T) {
	tomorrow := time.Now().Add(24 * time.Hour)
	intent := func(r *rig, in settle.Intent) {
		in.OrderNo, in.ID, in.Body = "P-1", "p", []byte(`{"order_no":"P-1","timeout":30}`)
		for _, res := range r.q.PublishMany(r.t.Context(), []settle.Intent{in}) {
			require.NoError(r.t, res.Err)
		}
		r.above(0, "orderpost_waiting_room_orders")
	}
	for name, plan := range map[string]struct {
		settings map[string]string
		waits    func(*rig)
		also     []string
	}{
		"its time, in the queue": {waits: func(r *rig) {
			js, done := r.hands()
			defer done()
			m := nats.NewMsg("orders.new.P-1")
			m.Data = []byte(`{"order_no":"P-1","timeout":30}`)
			m.Header.Set(settle.HeaderNotBefore, tomorrow.Format(time.RFC3339))
			_, err := js.PublishMsg(r.t.Context(), m)
			require.NoError(r.t, err)
			r.above(0, "orderpost_pending_orders")
		}},
		"its time, in the waiting room": {waits: func(r *rig) { intent(r, settle.Intent{NotBefore: tomorrow}) }},
		"a paused import": {waits: func(r *rig) {
			require.NoError(r.t, imports.PauseImport(r.t.Context(), r.q, "march", "anna"))
			intent(r, settle.Intent{Lane: order.BulkLane, Batch: "march"})
		}},
		"an approval": {settings: map[string]string{"ORDERPOST_APPROVALS": "imports"}, waits: func(r *rig) {
			intent(r, settle.Intent{Lane: order.BulkLane, Batch: "march"})
		}},
		"its turn, and a hold": {also: []string{"OrderpostHeld"}, waits: func(r *rig) {
			r.command("hold", "--reason", "maintenance")
			r.above(0, "orderpost_gate_block", "block", "hold")
			r.publish(5)
			r.publishWaiting(1000) // more than the feeder puts into the queue
			r.above(0, "orderpost_lane_orders", "lane", order.BulkLane)
			r.above(0, "orderpost_pending_orders")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, plan.settings)
			r.publish(20)
			r.settled()
			plan.waits(r)
			hours := func(until time.Duration, also ...string) {
				for r.prom.passed() < until {
					r.prom.tick()
					require.Subset(t, also, r.prom.firing(), "after %s", r.prom.passed())
				}
			}
			hours(fires, plan.also...)
			if len(plan.also) > 0 {
				r.command("resume")
				r.settled()
				r.prom.tick()
				hours(fires + 10*time.Minute)
			}
		})
	}
}

// until lets time pass up to a moment, until the alerts that fire are as wanted.
func (r *rig) until(latest time.Duration, wanted func(firing []string) bool, message string, args ...any) time.Duration {
	r.t.Helper()
	for r.prom.passed() < latest {
		r.prom.tick()
		if wanted(r.prom.firing()) {
			return r.prom.passed()
		}
	}
	require.Failf(r.t, "the alerts that fire: "+strings.Join(r.prom.firing(), ", "), message, args...)
	return 0
}
