package submit

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"orderpost/internal/order"
)

// fullJitter gives waits that are uniform between 0 and a cap which starts at
// base and doubles up to max: backoff's interval ± its whole self, with half
// the intervals.
func fullJitter(base, longest time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(max(base/2, 1)),
		backoff.WithMaxInterval(max(longest/2, 1)),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(1),
		backoff.WithMaxElapsedTime(0), // budgets are ours: gate waits do not count
	)
}

// budget counts what a visit may spend.
type budget struct {
	cfg      *Config
	waits    *backoff.ExponentialBackOff // made for the first wait: most orders have none
	began    time.Time
	gated    time.Duration // waited at the gate in this visit
	attempts int           // in this visit
}

func newBudget(cfg *Config) budget {
	return budget{cfg: cfg, began: time.Now()}
}

// next gives the wait before the next attempt, at least floor; or ok false if
// the visit's attempts or time do not last for it.
func (b *budget) next(floor time.Duration) (wait time.Duration, ok bool) {
	if b.waits == nil {
		b.waits = fullJitter(b.cfg.RetryBase, b.cfg.RetryMax)
	}
	wait = max(b.waits.NextBackOff(), floor)
	spent := time.Since(b.began) - b.gated
	return wait, b.attempts < b.cfg.RetryVisitAttempts && spent+wait <= b.cfg.RetryVisitTime
}

// delay gives the time in the queue before the next visit: doubling with each
// visit's worth of attempts, half of it random, at least floor.
func (b *budget) delay(h order.History, floor time.Duration) time.Duration {
	d := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(b.cfg.RetryDelayBase),
		backoff.WithMaxInterval(b.cfg.RetryDelayMax),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxElapsedTime(0),
	)
	wait := d.NextBackOff()
	for range min(h.Attempts/b.cfg.RetryVisitAttempts-1, 64) {
		wait = d.NextBackOff()
	}
	return max(min(wait, b.cfg.RetryDelayMax), floor)
}

// age is how long an order has been tried: since its first attempt, without
// the time for which it waited for the gate.
func age(h order.History, now time.Time) time.Duration {
	if h.FirstAttemptAt.IsZero() {
		return 0
	}
	return max(0, now.Sub(h.FirstAttemptAt)-time.Duration(h.GateWaitMS)*time.Millisecond)
}

// excuse adds to GateWaitMS the time that a returning order spent in the queue
// beyond the longest delay that a retry asks for: a closed gate, a backlog or
// stopped workers kept it there, not its own failures.
func excuse(h order.History, now time.Time, longest time.Duration) order.History {
	if h.LastAttemptAt.IsZero() {
		return h
	}
	if over := now.Sub(h.LastAttemptAt) - longest; over > 0 {
		h.GateWaitMS += over.Milliseconds()
	}
	return h
}

// spent says whether the total budget is used up, by attempts or by age.
func spent(cfg *Config, h order.History, now time.Time) bool {
	return h.Attempts >= cfg.RetryTotalAttempts || age(h, now) >= cfg.RetryTotalAge
}
