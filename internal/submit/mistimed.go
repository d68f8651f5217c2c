package submit

import (
	"cmp"
	"context"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/gate"
	"orderpost/internal/submit/http1"
)

// mistimed reports whether the API refused the attempt for its timestamp.
func (t *submission) mistimed(x *http1.Exchange, j *answer.Judgement) bool {
	wrong := time.Duration(0)
	switch j.Verdict {
	case order.Accepted, order.Denied, order.Rejected:
		wrong = t.clock.wrong(t.report.History.LastTimestamp, x.Answer.Header, x.Sent, x.Ended)
	}
	return t.clock.mistimed(j, &x.Answer, wrong)
}

// stampAgain makes the attempt a retry if another timestamp may pass. It may once in a
// submission, if the next timestamp agrees with the API's clock or that is not known.
func (t *submission) stampAgain(x *http1.Exchange, j *answer.Judgement) bool {
	if t.timeError || t.clock.wrong(t.clock.stamp(t.report.History.LastTimestamp), x.Answer.Header, x.Sent, time.Now()) > t.clock.limit {
		return false
	}
	t.timeError = true
	j.Verdict, j.Detail = order.Retry, "the timestamp was refused: once more with a new one"
	return true
}

// onMistimed gives back an order whose timestamp the API refused. That shows nothing
// about the key or the order: the clock is wrong, and the gate stays shut until it is
// right. If the clock is right by now, the order's own timestamps lie in the future, and
// it waits for them alone.
func (t *submission) onMistimed(ctx context.Context, p *gate.Permit) order.End {
	ahead := time.UnixMilli(t.report.History.LastTimestamp).Sub(t.clock.now())
	if ahead > order.MaxAhead && t.clock.advice() == "" {
		p.Release(gate.Signal{})
		t.report.Error = "its earlier timestamps are " + ahead.Round(time.Second).String() + " ahead of the clock"
		t.report.Delay = t.untilDeadline(min(ahead, t.cfg.RetryDelayMax))
		return order.EndSubmissionBudget
	}
	t.report.Error = t.clock.refused(t.shown)
	t.gate.ClockOff(t.report.Error)
	p.Release(gate.Signal{Verdict: order.Denied})
	return t.interruptedOr(ctx, order.EndHandBack)
}

// refused says why an API refuses timestamps, as far as the clock shows it, and quotes
// its answer.
func (c *clock) refused(shown string) string {
	what := c.advice()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown, c.explained = ". The API refuses its timestamps, and answers: "+shown, what != ""
	return cmp.Or(what, unexplained) + c.shown
}

// unexplained is the reason of a refusal by an API whose clock is unknown, or agrees.
const unexplained = "the API does not accept the time by which orders are stamped: is this machine's clock right, and ORDERPOST_CLOCK?"

// looked says what is still wrong with the clock after a refusal; "" if it was wrong and
// now is right.
func (c *clock) looked() string {
	what := c.advice()
	c.mu.Lock()
	defer c.mu.Unlock()
	if what == "" && c.explained {
		return ""
	}
	return cmp.Or(what, unexplained) + c.shown
}

// answered quotes the beginning of the last answer.
func (t *submission) answered() string {
	if t.shown == "" {
		return ""
	}
	return "; it was answered: " + t.shown
}
