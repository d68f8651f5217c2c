package submit

import (
	"context"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/gate"
)

// conclude turns what came back into a verdict, draws its consequences for the
// pool, gives the permit back, and says how the visit goes on.
func (t *visit) conclude(ctx context.Context, p *gate.Permit, pair *pairState, x *exchange, f attemptFacts) order.End {
	j := t.judge(x)
	t.clock.observe(x.answer.Header, x.sent, x.ended, j.TimeError)
	again := false
	if j.TimeError && !t.timeError {
		t.timeError, again = true, true
		j.Verdict, j.Detail = order.Retry, "the timestamp was refused: once more with a new one"
	}
	t.record(x, &j)
	event := AttemptEvent{
		OrderNo: t.Order.OrderNo(), Traceparent: t.Traceparent, Verdict: j.Verdict, Status: x.answer.Status,
		Phase: x.phase, Reason: j.Reason, Attempt: t.report.History.Attempts, EnqueuedAt: t.EnqueuedAt, Started: x.sent, Duration: x.ended.Sub(x.sent),
		RequestBytes: f.size, ResponseBytes: len(x.answer.Body), Reused: x.reused, GateWait: f.waited, RateWait: p.RateWaited(),
	}
	t.watch.Attempted(event)
	if f.ended != nil {
		f.ended(event)
	}
	t.log.Debug().Str("order_no", t.Order.OrderNo()).Stringer("verdict", j.Verdict).Int("status", x.answer.Status).
		Str("reason", j.Reason).Int("attempt", t.report.History.Attempts).Stringer("key", pair.KeyPair).
		Dur("duration_ms", x.ended.Sub(x.sent)).Msg("attempt")

	end := t.follow(ctx, p, pair, x, &j)
	if end != order.EndNone || again {
		return end
	}
	return t.goOn(ctx, &j)
}

// judge gives the verdict of an exchange.
func (t *visit) judge(x *exchange) answer.Judgement {
	x.answer.Scrub = t.keys.scrub.Load()
	if x.answer.Status == 0 {
		detail := ""
		if x.err != nil {
			detail = answer.Bounded(t.clean(x.err.Error()), 500)
		}
		return answer.NoAnswer(x.phase.maySent(), transportReason(x.phase, x.err), detail)
	}
	j := t.rules.Judge(&x.answer, t.report.History.Attempts)
	t.evidence.Weigh(&x.answer, &j)
	if after := t.honoured(answer.RetryAfter(x.answer.Header, x.ended)); after > j.Wait {
		j.Wait = after
	}
	if j.Throttle {
		t.ownThrottle(&j)
	}
	j.Reason, j.Detail = answer.Bounded(t.clean(j.Reason), 200), answer.Bounded(t.clean(j.Detail), 500)
	return j
}

// ownThrottle has an order wait by itself if nobody else is throttled.
func (t *visit) ownThrottle(j *answer.Judgement) {
	own := t.throttles.throttled(t.Order.OrderNo())
	if own == 0 {
		return
	}
	if own == 1 {
		t.log.Warn().Str("order_no", t.Order.OrderNo()).Str("reason", t.clean(j.Reason)).Msg("only this order is throttled, while others are answered: it waits by itself")
	}
	j.Throttle, j.Excused, j.Wait = false, own < ownEnough, max(j.Wait, ownWait)
	j.Detail = "only this order is throttled, while others are answered"
}

// record writes the attempt into the report, and keeps the doubt.
func (t *visit) record(x *exchange, j *answer.Judgement) {
	r, h := &t.report, &t.report.History
	r.Verdict, r.Final, r.Status, r.Reason = j.Verdict, j.Final, x.answer.Status, j.Reason
	r.Response = t.excerpt(x.answer.Body)
	r.Error = j.Detail
	if r.Error == "" && x.err != nil {
		r.Error = answer.Bounded(t.clean(x.err.Error()), 500)
	}
	switch {
	case j.Verdict == order.Unsure:
		h.Unsure = true
	case j.Verdict == order.Accepted, j.Final:
		h.Unsure = false
	}
	if len(r.Trail) == maxTrail {
		r.Trail = append(r.Trail[:0], r.Trail[1:]...)
	}
	r.Trail = append(r.Trail, order.Attempt{At: h.LastAttemptAt, Verdict: j.Verdict, Status: x.answer.Status,
		Reason: j.Reason, Answer: answer.Bounded(r.Response, maxTrailAnswer), DurationMS: x.ended.Sub(x.sent).Milliseconds()})
}

// excerpt is as much of a body as is recorded.
func (t *visit) excerpt(body []byte) string {
	return t.keys.scrub.Load().Excerpt(body, t.cfg.ResponseLimit)
}

// follow draws the consequences for the pool. Blocks go up before the permit is
// given back, so that nobody slips through in between.
func (t *visit) follow(ctx context.Context, p *gate.Permit, pair *pairState, x *exchange, j *answer.Judgement) order.End {
	sig := gate.Signal{Verdict: j.Verdict, Failed: j.Failed}
	if j.Failed {
		sig.Cause, sig.Body = answer.Bounded(t.clean(causeOf(x, j.Reason)), 200), x.answer.Shown()
	}
	if sig.Conclusive() {
		t.throttles.settle(t.Order.OrderNo())
	}
	if x.answer.Status == 0 && ctx.Err() != nil {
		sig = gate.Signal{} // we broke it off ourselves: it shows nothing
	}
	if j.Throttle {
		t.gate.Throttle(j.Wait, x.sent)
		j.Wait = 0 // the gate does the waiting
	}
	if j.Hold != "" {
		t.gate.HoldByAnswer(gate.BlockAnswer, t.clean(j.Hold))
	}
	switch j.Verdict {
	case order.Accepted, order.Duplicate:
		t.jury.orderCreated()
		t.keys.works(pair, x.sent, t.Order.OrderNo(), j.Verdict == order.Accepted)
		p.Release(sig)
		return order.EndAnswer
	case order.Rejected:
		return t.refused(ctx, p, sig, j)
	case order.Denied:
		return t.refusedKey(ctx, p, pair, sig, x)
	default:
		p.Release(sig)
		return order.EndNone
	}
}

// refused holds a refusal back until it is believed.
func (t *visit) refused(ctx context.Context, p *gate.Permit, sig gate.Signal, j *answer.Judgement) order.End {
	orderNo := t.Order.OrderNo()
	m, full := t.accuse(p, orderNo, j)
	p.Release(sig)
	if !full && (m == nil || t.jury.await(ctx, m)) {
		return order.EndAnswer
	}
	t.keys.suspect(orderNo)
	t.report.Error = "refusal called back: it is not clear whether the order is to blame or the settings"
	return t.leaseOr(ctx, order.EndHandBack)
}

// accuse has the jury count the refusal, and holds the pool where that fills the
// run: as one step, since a refusal between the two would begin a run of its
// own, and be believed although the pool holds.
func (t *visit) accuse(p *gate.Permit, orderNo string, j *answer.Judgement) (m *juror, full bool) {
	t.accusing.Lock()
	defer t.accusing.Unlock()
	onTrial, held := t.gate.TrialOf(p, gate.BlockRefusals)
	m, full = t.jury.refuse(orderNo, held || t.misplaced(j))
	if full && (onTrial || !held) {
		t.gate.HoldByAnswer(gate.BlockRefusals, t.refusalReason(j))
	}
	return m, full
}

// misplaced says whether a 404 or 405 is taken for a wrong address, which one
// answer is enough for. If this order was called back for it before, and other
// orders were created since, the address is right and the order is to blame.
func (t *visit) misplaced(j *answer.Judgement) bool {
	return j.Misplaced && !(t.keys.suspected(t.Order.OrderNo()) && t.jury.creating())
}

func (t *visit) refusalReason(j *answer.Judgement) string {
	what := "(" + j.Reason + ")"
	if j.Misplaced {
		return "the API does not know the address " + t.client.orders.String() + " " + what + ": is ORDERPOST_API_URL right? " +
			"If this answer is about single orders, write a rule for it into the ORDERPOST_RULES file"
	}
	return "a run of refusals of different orders without one acceptance, the last one " + what +
		": are ORDERPOST_API_URL and ORDERPOST_RULES right? If they are, resume"
}

// refusedKey shuts the gate for a denied credential and waits until it is
// known whose fault it was.
func (t *visit) refusedKey(ctx context.Context, p *gate.Permit, pair *pairState, sig gate.Signal, x *exchange) order.End {
	orderNo, detail := t.Order.OrderNo(), t.report.Reason
	proven, _ := t.gate.TrialOf(p, gate.BlockCredentials)
	if proven {
		detail += "; the account answers, but signed orders are denied: is the secret right?"
	}
	fate := fateOwnFault
	if t.keys.deny(orderNo, pair, x.ended) {
		p.Release(sig)
	} else {
		t.denied(pair, proven, detail)
		p.Release(sig)
		fate = t.keys.await(ctx, t.gate, orderNo, pair)
	}
	switch fate {
	case fateAgain:
		return order.EndNone
	case fateOwnFault:
		t.report.Verdict, t.report.Reason = order.Rejected, "denied though others on the same pair are accepted"
		return order.EndAnswer
	default:
		return t.leaseOr(ctx, order.EndHandBack)
	}
}

func (t *visit) leaseOr(ctx context.Context, e order.End) order.End {
	if context.Cause(ctx) != nil {
		return t.interrupted(ctx, context.Cause(ctx))
	}
	return e
}

// goOn is for verdicts that settle nothing: wait and try again, or go back.
// The total budget is judged here and nowhere else, after a failure: an order
// whose attempts were throttled, denied or called back is not exhausted by them.
func (t *visit) goOn(ctx context.Context, j *answer.Judgement) order.End {
	h := t.report.History
	switch {
	case j.Verdict == order.Denied: // the pair works after all
		return order.EndNone
	case j.Verdict == order.Unsure && t.cfg.OnUnsure == order.Park:
		return t.leaseOr(ctx, order.EndAnswer)
	case ctx.Err() != nil:
		return t.interrupted(ctx, context.Cause(ctx))
	case !j.Throttle && !j.Excused && spent(&t.cfg, h, time.Now()):
		return order.EndTotalBudget
	}
	wait, ok := t.budget.next(j.Wait)
	if !ok {
		t.report.Delay = t.untilDeadline(t.budget.delay(h, j.Wait))
		t.watch.Retrying(t.report.Delay, true)
		return order.EndVisitBudget
	}
	wait = t.untilDeadline(wait)
	t.watch.Retrying(wait, false)
	return t.wait(ctx, wait)
}

// untilDeadline cuts a wait that would end after the order's deadline: there
// is nothing left to wait for then.
func (t *visit) untilDeadline(d time.Duration) time.Duration {
	if t.Deadline.IsZero() {
		return d
	}
	return max(0, min(d, time.Until(t.Deadline)+time.Millisecond))
}
