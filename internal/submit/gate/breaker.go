package gate

import "time"

// breakerSlots is the number of slots that the moving window consists of.
const breakerSlots = 10

// breaker is a circuit breaker over a moving window. Gate.mu guards it.
type breaker struct {
	ratio float64
	min   int
	slot  time.Duration // length of one slot

	counts [breakerSlots]struct{ all, failed int }
	at     int64 // number of the current slot since 1970
	streak int   // consecutive failures
}

func newBreaker(cfg Config) breaker {
	return breaker{ratio: cfg.BreakerRatio, min: cfg.BreakerMin, slot: cfg.BreakerWindow / breakerSlots}
}

// record counts one request and reports whether the breaker opens. It opens
//   - when the share of failures in the window reaches ratio, or
//   - after min consecutive failures, which shows a hard outage at once, even
//     after busy minutes, or
//   - after min/2 failures and no success in the window, which stops a trickle
//     of orders into a dead API.
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

// move clears the slots that have left the window.
func (b *breaker) move(now time.Time) {
	n := now.UnixNano() / int64(b.slot)
	for i := max(b.at+1, n-breakerSlots+1); i <= n; i++ {
		b.counts[i%breakerSlots] = struct{ all, failed int }{}
	}
	b.at = max(n, b.at)
}

// reset clears all counts after the breaker has closed.
func (b *breaker) reset() {
	clear(b.counts[:])
	b.streak = 0
}
