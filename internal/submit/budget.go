package submit

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

// waitsFrom returns waits that begin at base and double up to longest, each randomized by a share of itself.
func waitsFrom(base, longest time.Duration, share float64) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(max(min(base, longest), 1)),
		backoff.WithMaxInterval(max(longest, 1)),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(share),
		backoff.WithMaxElapsedTime(0), // type budget bounds the time, without the waits at the gate
	)
}

// budget counts the attempts and the time of a submission.
type budget struct {
	cfg      *Config
	waits    *backoff.ExponentialBackOff // created at the first wait, because most orders need none
	began    time.Time
	gated    time.Duration // time waited at the gate in this submission
	attempts int           // in this submission
}

func newBudget(cfg *Config) budget {
	return budget{cfg: cfg, began: time.Now()}
}

// next returns the wait before the next attempt, at least floor. It lies anywhere between 0 and a limit that
// doubles. ok is false if the submission has no attempts left, or too little time for the wait.
func (b *budget) next(floor time.Duration) (wait time.Duration, ok bool) {
	if b.waits == nil {
		b.waits = waitsFrom(b.cfg.RetryBase/2, b.cfg.RetryMax/2, 1) // 0 to twice the interval
	}
	wait = max(b.waits.NextBackOff(), floor)
	spent := time.Since(b.began) - b.gated
	return wait, b.attempts < b.cfg.RetrySubmissionAttempts && spent+wait <= b.cfg.RetrySubmissionTime
}

// delay returns the time in the queue before the next submission, at least floor.
// It doubles each time that the order has used up a submission's attempts, and is
// randomized by ±50 %.
func (b *budget) delay(h order.History, floor time.Duration) time.Duration {
	d := waitsFrom(b.cfg.RetryDelayBase, b.cfg.RetryDelayMax, 0.5)
	wait := d.NextBackOff()
	for range min(h.Attempts/b.cfg.RetrySubmissionAttempts-1, 64) {
		wait = d.NextBackOff()
	}
	return min(max(wait, floor), b.cfg.RetryDelayMax)
}

// age returns the time since the order's first attempt, without the time that it
// waited at the gate.
func age(h order.History, now time.Time) time.Duration {
	if h.FirstAttemptAt.IsZero() {
		return 0
	}
	return max(0, now.Sub(h.FirstAttemptAt)-time.Duration(h.GateWaitMS)*time.Millisecond)
}

// creditQueueTime adds to GateWaitMS the time that an order spent in the queue since
// its last attempt, beyond the longest delay of a retry. A closed gate, a backlog or
// stopped workers caused that time, not the order's own failures.
func creditQueueTime(h *order.History, now time.Time, longest time.Duration) {
	if over := now.Sub(h.LastAttemptAt) - longest; over > 0 && !h.LastAttemptAt.IsZero() {
		h.GateWaitMS += over.Milliseconds()
	}
}

// spent reports whether the order used up its total attempts or its total age.
func spent(cfg *Config, h order.History, now time.Time) bool {
	return h.Attempts >= cfg.RetryTotalAttempts || spentAge(cfg, h, now)
}

func spentAge(cfg *Config, h order.History, now time.Time) bool {
	return age(h, now) >= cfg.RetryTotalAge
}

// waitedAtGate excludes a wait from the budgets.
func (t *submission) waitedAtGate(d time.Duration) {
	t.budget.gated += d
	if !t.report.History.FirstAttemptAt.IsZero() { // the age counts from the first attempt
		t.report.History.GateWaitMS += d.Milliseconds()
	}
}

// capRetryAfter limits a Retry-After to the longest delay.
func (s *Submitter) capRetryAfter(d time.Duration) time.Duration { return min(d, s.cfg.RetryDelayMax) }

// untilDeadline shortens a wait that would end after the order's deadline.
func (t *submission) untilDeadline(d time.Duration) time.Duration {
	if t.Deadline.IsZero() {
		return d
	}
	return max(0, min(d, t.Deadline.Sub(t.clock.deadlines())+time.Millisecond))
}

// wait sleeps for d. It returns EndNone, or how the submission ends if it was
// interrupted.
func (t *submission) wait(ctx context.Context, d time.Duration) order.End {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		withdrawn, wake := t.cancelled()
		if withdrawn {
			return order.EndCancelled
		}
		select {
		case <-timer.C:
			return order.EndNone
		case <-ctx.Done():
			return t.interrupted(ctx, context.Cause(ctx))
		case <-t.gate.Draining():
			return t.interrupted(ctx, gate.ErrDraining)
		case <-wake:
		}
	}
}

// interrupted returns how the submission ends after a wait failed with err.
func (t *submission) interrupted(ctx context.Context, err error) order.End {
	if errors.Is(err, order.ErrLeaseLost) || errors.Is(context.Cause(ctx), order.ErrLeaseLost) {
		return order.EndLeaseLost
	}
	if t.report.Error == "" {
		t.report.Error = t.clean(err.Error())
	}
	return order.EndHandBack
}

func (t *submission) interruptedOr(ctx context.Context, e order.End) order.End {
	if context.Cause(ctx) != nil {
		return t.interrupted(ctx, context.Cause(ctx))
	}
	return e
}
