package submit

import (
	"context"
	"errors"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/gate"
)

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
		withdrawn, news := t.cancelled()
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
		case <-news:
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
