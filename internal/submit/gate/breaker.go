package gate

import "time"

// breakerSlots is the number of parts that the breaker's window moves by.
const breakerSlots = 10

// breaker counts failed requests over a moving window. It is guarded by the
// gate's lock.
type breaker struct {
	ratio float64
	min   int
	slot  time.Duration // length of one part of the window

	counts [breakerSlots]struct{ all, failed int }
	at     int64 // number of the current part, since 1970
	streak int   // failures in a row
}

func newBreaker(cfg Config) breaker {
	return breaker{ratio: cfg.BreakerRatio, min: cfg.BreakerMin, slot: cfg.BreakerWindow / breakerSlots}
}

// record counts one request and says whether the breaker opens: at a share of
// failures in the window, or at the minimum of failures in a row, so that a
// hard outage after busy minutes is seen at once, or at half the minimum with
// nothing else in the window, so that a trickle into a dead API is stopped.
func (b *breaker) record(now time.Time, failed bool) (open bool) {
	if b.ratio == 0 {
		return false
	}
	b.move(now)
	c := &b.counts[b.at%breakerSlots]
	c.all++
	if !failed {
		b.streak = 0
		return false
	}
	c.failed++
	b.streak++
	var all, bad int
	for _, c := range b.counts {
		all, bad = all+c.all, bad+c.failed
	}
	switch {
	case b.streak >= b.min, bad == all && bad >= max(b.min/2, 1):
		return true
	default:
		return all >= b.min && float64(bad) >= b.ratio*float64(all)
	}
}

// move empties the parts that have gone by.
func (b *breaker) move(now time.Time) {
	n := now.UnixNano() / int64(b.slot)
	for i := max(b.at+1, n-breakerSlots+1); i <= n; i++ {
		b.counts[i%breakerSlots] = struct{ all, failed int }{}
	}
	b.at = max(n, b.at)
}

// reset forgets everything: the breaker has just closed.
func (b *breaker) reset() {
	clear(b.counts[:])
	b.streak = 0
}
