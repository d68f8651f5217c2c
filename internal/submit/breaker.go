package submit

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
}

func newBreaker(cfg Config) breaker {
	return breaker{ratio: cfg.BreakerRatio, min: cfg.BreakerMin, slot: cfg.BreakerWindow / breakerSlots}
}

// record counts one request and says whether the breaker opens. It opens, too,
// on half the minimum of failures with nothing else among them, so that a slow
// trickle into a dead API is stopped.
func (b *breaker) record(now time.Time, failed bool) (open bool) {
	if b.ratio == 0 {
		return false
	}
	b.move(now)
	c := &b.counts[b.at%breakerSlots]
	c.all++
	if failed {
		c.failed++
	}
	var all, bad int
	for _, c := range b.counts {
		all, bad = all+c.all, bad+c.failed
	}
	if !failed {
		return false
	}
	enough := all >= b.min || (bad == all && all >= max(b.min/2, 1))
	return enough && float64(bad) >= b.ratio*float64(all)
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
func (b *breaker) reset() { clear(b.counts[:]) }
