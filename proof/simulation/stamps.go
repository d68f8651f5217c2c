package simulation

import (
	"time"

	"orderpost/internal/order"
)

// stampTick is the resolution of a clock that stamps and jumps. Readings meet by it that
// would nearly always differ by some milliseconds otherwise.
const stampTick = 10 * time.Second

// stampPlaces is how far a stamping clock may be off.
var stampPlaces = [...]time.Duration{0, 10 * time.Minute, -10 * time.Minute, 10 * time.Second, -10 * time.Second, time.Hour}

// stampingClock returns what the clock by which the worker stamps shows, in
// milliseconds: its machine's, or what it takes for the API's (ORDERPOST_CLOCK). In some
// schedules it jumps to and fro every few moments. Nothing else goes by that clock.
func (h *host) stampingClock() int64 {
	now := h.now()
	n := h.w.cfg.StampPlaces
	if n == 0 {
		return now.UnixMilli()
	}
	period := int(h.e.at / h.w.cfg.StampPeriod)
	seat := 0
	for i := range h.w.machines {
		if h.machine == &h.w.machines[i] {
			seat = i
		}
	}
	return now.Truncate(stampTick).Add(stampPlaces[(period*5+seat*3)%n]).UnixMilli()
}

// nextTimestamp returns the timestamp of the order's next attempt.
func (h *host) nextTimestamp(last, now int64) int64 {
	switch {
	case !h.w.drops(Stamps):
		return order.NextTimestamp(last, now)
	case last-now > order.MaxAhead.Milliseconds():
		return now
	default:
		return max(now, last+1)
	}
}
