package settle

import (
	"fmt"
	"runtime/debug"

	"orderpost/internal/order"
)

// PoisonAfter is the number of suspect notes from which an intent is poison:
// that many times a worker handled it alone and went down (R8).
const PoisonAfter = 3

// suspect handles an intent whose earlier deliveries no note explains. It
// handles the intent alone, after a confirmed suspect note. A worker that goes
// down with the intent leaves that note behind (R8).
func (j *job) suspect() {
	d := j.d
	if d.History.Suspects >= PoisonAfter {
		j.conclude(poison(d.History), false)
		return
	}
	j.worker.ledger.log.Warn().Str("order_no", d.OrderNo()).Int("unexplained", d.Unexplained).Msg("handling this order alone: its earlier deliveries ended without a report, and it may have crashed a worker")
	switch {
	case !j.write(j.worker.NoteSuspect):
	case d.Invalid != nil:
		j.invalid()
	default:
		j.submit()
	}
}

// poison returns the report of an intent that took its workers down. Each
// delivery that ended without a report may have sent a request and counts as an
// attempt.
func poison(h order.History) *order.Report {
	lost := h.Lost + h.Suspects
	h.Attempts += lost
	return &order.Report{End: order.EndPoison, Reason: "poison", History: h,
		Error: fmt.Sprintf("handled alone %d times, and its worker went down each time; %d deliveries ended without a report, and each may have sent it", h.Suspects, lost)}
}

// recoverPanic turns a panic in the handling of one order into a suspect note.
// The worker goes on. The order is delivered again and handled alone (R8).
func (j *job) recoverPanic() {
	what := recover()
	if what == nil {
		return
	}
	if !j.worker.ledger.time.Survivable(what) {
		panic(what)
	}
	j.obs.Panicked(what)
	j.worker.ledger.log.Error().Str("order_no", j.d.OrderNo()).Interface("panic", what).Bytes("stack", debug.Stack()).Msg("panic while handling an order")
	if j.d.Work != WorkSuspect { // a suspect has its note already
		j.write(j.worker.NoteSuspect)
	}
}
