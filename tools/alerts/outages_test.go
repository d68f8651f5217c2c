package alerts

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/notify"
	"orderpost/internal/order"
	"orderpost/internal/sandbox"
)

// outage is what makes one alert fire: a real fault, and its end.
type outage struct {
	settings map[string]string // of the workers, beside the rig's
	// breaks brings the fault about and waits until workers show it, heals ends
	// it and waits until every order is settled.
	breaks, heals func(*rig)
	// lasts is called again and again while the fault lasts; nil = nothing goes on.
	lasts func(*rig)
	// also are the alerts that the same fault may set off.
	also []string
}

// faults changes what goes wrong at the API.
func faults(change func(*sandbox.Faults)) func(*sandbox.Settings) {
	return func(s *sandbox.Settings) { change(&s.Faults) }
}

// claimsEnd lets another worker take over soon what one had in hand when it died.
var claimsEnd = map[string]string{"ORDERPOST_ACK_WAIT": "2s"}

// holdsKey is the key of the fleet's bucket under which the holds of imports are.
const holdsKey = "waiting.holds"

// outages has one for every alert.
var outages = map[string]outage{
	"OrderpostNoWorker": {
		breaks: func(r *rig) { r.killWorkers() },
		heals:  func(r *rig) { r.startWorker() },
	},
	"OrderpostBrokerLost": {
		breaks: func(r *rig) {
			r.broker.Stop()
			r.eventually("the loss is told", func() bool { return slices.Equal(r.prom.reads("orderpost_broker_connected"), []float64{0}) })
			require.Empty(r.t, r.prom.reads("orderpost_pending_orders"), "nobody knows")
		},
		heals: func(r *rig) {
			r.restartBroker()
			r.above(0, "orderpost_broker_connected")
			r.publish(10)
			r.settled()
		},
	},
	"OrderpostStreamsMissing": {
		breaks: func(r *rig) {
			r.deleteStream("ORDERS_DEAD")
			r.eventually("the loss is told", func() bool {
				return slices.Equal(r.prom.reads("orderpost_stream_present", "stream", "dead_letters"), []float64{0})
			})
		},
		heals: func(r *rig) {
			r.command("repair", "--yes")
			r.above(0, "orderpost_stream_present", "stream", "dead_letters")
			r.publish(10)
			r.settled()
		},
		also: []string{"OrderpostHeld"},
	},
	"OrderpostIntentStranded": {
		settings: claimsEnd,
		breaks: func(r *rig) {
			r.killWorkers()
			r.publish(1)
			r.acknowledge()
			r.startWorker()
			r.above(0, "orderpost_intent_stranded")
		},
		heals: func(r *rig) {
			r.command("repair", "--yes")
			r.settled()
			r.eventually("nothing is stranded", func() bool { return slices.Equal(r.prom.reads("orderpost_intent_stranded"), []float64{0}) })
		},
	},
	"OrderpostKeyDenied": {
		breaks: func(r *rig) {
			r.api.RevokeKey("key")
			r.publish(10)
			r.above(0, "orderpost_gate_block", "block", "credentials")
		},
		heals: func(r *rig) {
			require.NoError(r.t, r.api.AddKey("key", "secret"))
			r.settled()
		},
	},
	"OrderpostAPIDown": {
		breaks: func(r *rig) {
			r.change(func(s *sandbox.Settings) { s.Down = sandbox.DropAll })
			r.publish(40)
			r.above(0, "orderpost_gate_block", "block", "breaker")
		},
		heals: func(r *rig) {
			r.change(func(s *sandbox.Settings) { s.Down = sandbox.Up })
			r.settled()
		},
		also: []string{"OrderpostManyUnsure"},
	},
	"OrderpostAnswerUnreadable": {
		breaks: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.Garbage = 1 }))
			r.publish(10)
			r.above(0, "orderpost_gate_block", "block", "answer")
		},
		heals: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.Garbage = 0 }))
			r.settled()
		},
		also: []string{"OrderpostManyUnsure"},
	},
	"OrderpostRefusalRun": {
		breaks: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.Refuse = 1 }))
			r.publish(60)
			r.above(0, "orderpost_gate_block", "block", "refusals")
		},
		heals: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.Refuse = 0 }))
			r.settled()
		},
		also: []string{"OrderpostManyFailures"}, // those that were believed before the run was long enough
	},
	"OrderpostHeld": {
		breaks: func(r *rig) {
			r.command("hold", "--reason", "maintenance")
			r.above(0, "orderpost_gate_block", "block", "hold")
		},
		heals: func(r *rig) {
			r.command("resume")
			r.settled()
		},
	},
	"OrderpostResultsRefused": {
		breaks: func(r *rig) {
			r.limit("ORDERS_RESULTS", 1)
			r.publish(20)
			r.above(0, "orderpost_publish_failures_total", "stream", "results", "cause", "refused")
		},
		heals: func(r *rig) {
			r.limit("ORDERS_RESULTS", -1)
			r.settled()
		},
	},
	"OrderpostStorageFailing": {
		breaks: func(r *rig) {
			r.muteResults(true)
			r.publish(20)
			r.above(0, "orderpost_storage_failing")
		},
		heals: func(r *rig) {
			r.muteResults(false)
			r.publish(10)
			r.settled()
			r.eventually("results are confirmed again", func() bool { return slices.Equal(r.prom.reads("orderpost_storage_failing"), []float64{0}) })
		},
		also: []string{"OrderpostHeld", "OrderpostResultsRefused"},
	},
	"OrderpostThrottled": {
		breaks: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.TooMany = 1 }))
			r.publish(10)
			r.above(6, "orderpost_gate_closings_total", "block", "throttle")
		},
		heals: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.TooMany = 0 }))
			r.settled()
		},
	},
	"OrderpostNothingSettled": silent("OrderpostQueueOld"),
	"OrderpostQueueOld":       silent("OrderpostNothingSettled"),
	"OrderpostNotFed": {
		breaks: func(r *rig) {
			r.write(holdsKey, "of a newer version")                    // nobody can tell what it holds
			r.publishUntil(order.BulkLane, "it is told", func() bool { // the feeder looks with the next renewal of its lease
				return slices.Equal(r.prom.reads("orderpost_waiting_room_fed"), []float64{0})
			})
		},
		heals: func(r *rig) {
			r.write(holdsKey, "{}")
			r.eventually("all were moved", func() bool {
				n, err := r.q.Waiting.Total(r.t.Context())
				return err == nil && n == 0
			})
			r.above(0, "orderpost_waiting_room_fed")
			r.settled()
		},
	},
	"OrderpostUnknownOutcome": {
		settings: map[string]string{"ORDERPOST_ON_UNSURE": "park"},
		breaks: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.DropAfter = 1 }))
			r.publish(1)
			r.above(0, "orderpost_orders_total", "outcome", "unknown")
		},
		heals: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.DropAfter = 0 }))
			r.publish(10)
			r.settled()
		},
		also: []string{"OrderpostManyUnsure"},
	},
	"OrderpostManyFailures": {
		breaks: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.Refuse = 0.5 }))
			r.publish(60)
			r.above(12, "orderpost_orders_total", "outcome", "rejected")
		},
		heals: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.Refuse = 0 }))
			r.settled()
		},
	},
	"OrderpostPoison": {
		settings: claimsEnd,
		breaks: func(r *rig) {
			r.change(func(s *sandbox.Settings) { s.Latency = time.Minute })
			r.publish(1)
			for range 5 { // twice among others, three times alone
				r.above(0, "orderpost_in_flight_requests")
				r.killWorkers()
				r.startWorker()
			}
			r.above(0, "orderpost_poisoned_orders_total")
		},
		heals: func(r *rig) {
			r.change(func(s *sandbox.Settings) { s.Latency = 0 })
			r.publish(10)
			r.settled()
		},
		also: []string{"OrderpostWorkersDie", "OrderpostUnknownOutcome"},
	},
	"OrderpostWorkersDie": {
		settings: claimsEnd,
		breaks: func(r *rig) {
			r.change(func(s *sandbox.Settings) { s.Latency = time.Minute })
			r.publish(3)
			r.above(2, "orderpost_in_flight_requests")
			r.killWorkers()
			r.change(func(s *sandbox.Settings) { s.Latency = 0 })
			r.startWorker()
			r.settled() // before the new worker is scraped for the first time
		},
		heals: func(*rig) {},
	},
	"OrderpostClaimsLost": {
		settings: map[string]string{"ORDERPOST_ACK_WAIT": "2s", "ORDERPOST_REQUEST_TIMEOUT": "2s"},
		breaks: func(r *rig) {
			r.change(func(s *sandbox.Settings) { s.Latency = time.Minute })
			r.publish(16)
			r.above(15, "orderpost_in_flight_requests")
			r.broker.Stop()
			r.above(15, "orderpost_lease_losses_total")
			r.change(func(s *sandbox.Settings) { s.Latency = 0 })
		},
		heals: func(r *rig) {
			r.restartBroker()
			r.settled()
		},
		also: []string{"OrderpostBrokerLost", "OrderpostManyUnsure", "OrderpostWorkersDie"},
	},
	"OrderpostManyUnsure": {
		settings: map[string]string{"ORDERPOST_BREAKER_RATIO": "0"},
		breaks: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.DropAfter, f.MaxPerOrder = 1, 1 }))
			r.publish(30)
			r.above(29, "orderpost_attempts_total", "verdict", "unsure")
		},
		heals: func(r *rig) {
			r.change(faults(func(f *sandbox.Faults) { f.DropAfter = 0 }))
			r.settled()
		},
	},
	"OrderpostClockRefused": {
		breaks: func(r *rig) {
			r.change(func(s *sandbox.Settings) { s.Skew = 10 * time.Minute })
			r.publish(10)
			r.above(0, "orderpost_gate_block", "block", "clock")
		},
		heals: func(r *rig) {
			r.change(func(s *sandbox.Settings) { s.Skew = 0 })
			r.settled()
		},
		also: []string{"OrderpostClockOff"},
	},
	"OrderpostClockOff": {
		breaks: func(r *rig) { r.skew(30*time.Second, func(off float64) bool { return off > 25 }) },
		heals:  func(r *rig) { r.skew(0, func(off float64) bool { return off < 1 }) },
	},
	"OrderpostNotifyBehind": {
		breaks: func(r *rig) {
			r.hooks.down.Store(true)
			r.publish(10)
			r.above(0, "orderpost_notify_oldest_timestamp_seconds")
		},
		heals: func(r *rig) {
			r.hooks.down.Store(false)
			r.settled()
		},
	},
	"OrderpostNotifyParked": {
		breaks: func(r *rig) {
			refused := fmt.Sprintf("A-%05d", r.orders+1)
			r.hooks.refuses.Store(&refused)
			r.publishUntil("", "the refused one is parked", func() bool { return r.prom.sum("orderpost_notify_parked") > 0 })
		},
		heals: func(r *rig) {
			r.hooks.refuses.Store(nil)
			all, err := notify.ReadAside(r.t.Context(), r.q)
			require.NoError(r.t, err)
			require.Len(r.t, all, 1)
			require.NoError(r.t, all[0].Retry(r.t.Context(), r.q))
			r.eventually("nothing is parked", func() bool { return r.prom.sum("orderpost_notify_parked") == 0 })
			r.settled()
		},
	},
	"OrderpostNotifyGone": {
		breaks: func(r *rig) {
			url := r.settings["ORDERPOST_NOTIFY_URL"]
			r.killWorkers()
			delete(r.settings, "ORDERPOST_NOTIFY_URL") // a deployment that forgot it
			r.startWorker()
			r.settings["ORDERPOST_NOTIFY_URL"] = url
			r.publish(10)
			r.settled()
		},
		heals: func(r *rig) {
			r.startWorker()
			r.above(0, "orderpost_notify_sends")
			r.settled()
		},
	},
	"OrderpostGatewayRefuses": {
		breaks: func(r *rig) {
			r.limit("ORDERS", 1)
			r.command("hold", "--reason", "maintenance") // or the workers make room
			r.above(0, "orderpost_gate_block", "block", "hold")
			r.eventually("there is no room", func() bool { return r.bring() == http.StatusServiceUnavailable })
		},
		lasts: func(r *rig) { r.bring() },
		heals: func(r *rig) {
			r.limit("ORDERS", -1)
			r.command("resume")
			r.eventually("there is room", func() bool { return r.bring() == http.StatusCreated })
			r.settled()
		},
		also: []string{"OrderpostHeld"},
	},
}

// silent is an API that answers nothing.
func silent(also string) outage {
	return outage{
		breaks: func(r *rig) {
			r.change(func(s *sandbox.Settings) { s.Down = sandbox.DropAll })
			r.publish(5)
			r.above(0, "orderpost_oldest_due_timestamp_seconds")
		},
		heals: func(r *rig) {
			r.change(func(s *sandbox.Settings) { s.Down = sandbox.Up })
			r.settled()
		},
		also: []string{"OrderpostAPIDown", "OrderpostManyUnsure", also},
	}
}

// skew sets the API's clock and sends orders until the worker has noticed.
func (r *rig) skew(by time.Duration, noticed func(offset float64) bool) {
	r.t.Helper()
	r.change(func(s *sandbox.Settings) { s.Skew = by })
	r.publishUntil("", "the clock's offset is noticed", func() bool { return noticed(r.prom.sum("orderpost_clock_offset_seconds")) })
}
