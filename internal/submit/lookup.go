package submit

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/gate"
)

// lookupShare is the part of the slots and of the rate that lookups may take: one of so many.
const lookupShare = 10

// looks bounds the lookups of a process.
type looks struct {
	slots   chan struct{}
	limiter *rate.Limiter
	// uncovered is the status of the last answer that no lookup rule covers; 0 = each is covered by the present rules.
	uncovered atomic.Int64
}

func newLooks(concurrency int) *looks {
	return &looks{slots: make(chan struct{}, max(1, concurrency/lookupShare)), limiter: rate.NewLimiter(rate.Inf, 1)}
}

// begin reports whether another lookup may begin now at a rate of orders, 0 = no limit. end must follow if it may.
func (l *looks) begin(perSecond float64, now time.Time) bool {
	select {
	case l.slots <- struct{}{}:
	default:
		return false
	}
	limit := rate.Inf
	if perSecond > 0 {
		limit = rate.Limit(perSecond / lookupShare)
	}
	if l.limiter.Limit() != limit {
		l.limiter.SetLimitAt(now, limit)
	}
	allowed := l.limiter.AllowN(now, 1)
	if !allowed {
		l.end()
	}
	return allowed
}

func (l *looks) end() { <-l.slots }

// lookup returns how the API is asked about this order; nil = it is not: nobody said how, no path can
// name the order, or a person allowed an attempt, which is still to come.
func (t *submission) lookup() *answer.Lookup {
	if t.Allowed && t.budget.attempts == 0 {
		return nil
	}
	return t.lookupOf(t.Order, t.report.History)
}

// Asks reports whether the API is asked about an order that is in doubt.
func (s *Submitter) Asks(o *order.Order, h order.History) bool { return s.lookupOf(o, h) != nil }

func (s *Submitter) lookupOf(o *order.Order, h order.History) *answer.Lookup {
	l := s.judge.Rules.Lookup()
	if l == nil || spentAge(&s.cfg, h, time.Now()) {
		return nil
	}
	if _, ok := l.Path(o.OrderNo()); !ok {
		return nil
	}
	return l
}

// endDoubt does what may end the doubt about an order without another attempt: it judges the answer that was
// called back again, and asks the API. It returns EndNone if the order may be posted.
func (t *submission) endDoubt(ctx context.Context) order.End {
	if end := t.decideByRecalled(ctx); end != order.EndNone || !t.report.History.Unsure {
		return end
	}
	l := t.lookup()
	if l == nil {
		return order.EndNone
	}
	if since := time.Since(t.report.History.LastAttemptAt); since >= 0 && since < l.First {
		return t.lookAgain(l.First - since)
	}
	if !t.looks.begin(t.gate.RateLimit(), time.Now()) {
		return t.lookAgain(l.First)
	}
	defer t.looks.end()
	return t.look(ctx, l)
}

// look asks the API for the order, through the gate as every request.
func (t *submission) look(ctx context.Context, l *answer.Lookup) order.End {
	began := time.Now()
	p, err := t.enter(ctx)
	t.waitedAtGate(time.Since(began))
	if errors.Is(err, gate.ErrWoken) {
		return t.lookAgain(l.First)
	}
	if err != nil {
		return t.interrupted(ctx, err)
	}
	defer p.Abandon()
	pair := t.keys.use()
	path, _ := l.Path(t.Order.OrderNo())
	x := t.sender.Look(ctx, pair.Key, t.Order.OrderNo(), path)
	x.Answer.Scrub = t.keys.scrub.Load()
	if x.Answer.Status > 0 {
		t.clock.observe(&x.Answer, x.Sent, x.Ended, false)
	}
	found, reason := l.Judge(&x.Answer)
	t.watch.LookedUp(found)
	t.log.Debug().Str("order_no", t.Order.OrderNo()).Int64("at_ns", x.Ended.UnixNano()).Stringer("found", found).Int("status", x.Answer.Status).Str("reason", reason).Msg("order looked up")
	var sig gate.Signal
	switch status := x.Answer.Status; {
	case found != order.FoundNothing, status == 0 && ctx.Err() != nil:
	case status == http.StatusTooManyRequests:
		t.gate.Throttle(t.capRetryAfter(answer.RetryAfter(x.Answer.Header, x.Ended)), x.Sent)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		t.shown = x.Answer.Shown()
		t.denied(pair, false, "a lookup was denied"+t.answered())
		sig.Verdict = order.Denied
	case status == 0 || status >= http.StatusInternalServerError:
		sig = gate.Signal{Verdict: order.Retry, Failed: true, Cause: answer.Bounded(t.clean(causeOf(&x, x.Reason())), 200)}
	case t.looks.uncovered.Swap(int64(status)) != int64(status):
		t.log.Warn().Str("order_no", t.Order.OrderNo()).Int("status", status).Str("answer", x.Answer.Shown()).Msg("no lookup rule covers this answer; such orders stay in doubt")
	}
	p.Release(sig)
	r := t.report
	switch {
	case x.Answer.Status == 0 && ctx.Err() != nil:
		return t.interrupted(ctx, context.Cause(ctx))
	case found == order.FoundNothing:
		return t.lookAgain(t.budget.delay(r.History, l.First))
	}
	r.Status, r.Reason, r.Response, r.Repost = x.Answer.Status, answer.Bounded(t.clean(reason), 200), t.excerpt(x.Answer.Body), l.Repost
	if r.API = nil; found == order.FoundExists {
		r.API = t.kept(&x.Answer)
	} else {
		r.Said = x.Answer.Said(t.Order.OrderNo())
	}
	end := r.LookedUp(found, t.AbsentFor, l.AbsentFor, time.Now())
	if end == order.EndAbsent && r.Repost && spent(&t.cfg, r.History, time.Now()) {
		end = order.EndTotalBudget
	}
	if end != order.EndLookup {
		return end
	}
	r.Error = "the API does not have the order yet; an absence counts if it is said again, " + l.AbsentFor.String() + " later"
	return t.lookAgain(l.AbsentFor - t.AbsentFor)
}

// lookAgain gives the order back until it is looked up the next time. Another process may get it then,
// which has to know of an absence for as long: so the delay is a part of that.
func (t *submission) lookAgain(d time.Duration) order.End {
	t.report.Delay = max(time.Second, min(d, t.cfg.RetryDelayMax))
	t.watch.Retrying(t.report.Delay, true)
	return order.EndLookup
}
