package submit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/gate"
	"orderpost/internal/submit/http1"
)

// conclude turns the exchange into a verdict, applies its consequences to the pool,
// releases the permit, and returns how the submission ends, or EndNone if it goes on. The event has what was known
// before the answer.
func (t *submission) conclude(ctx context.Context, p *gate.Permit, pair *pairState, x *http1.Exchange, event AttemptEvent, span Span) order.End {
	j := t.judgement(x)
	mistimed := t.mistimed(x, &j)
	t.clock.observe(&x.Answer, x.Sent, x.Ended, mistimed)
	again := mistimed && t.stampAgain(x, &j)
	t.record(x, &j)
	event.Verdict, event.Status, event.Reason, event.Started, event.Duration = j.Verdict, x.Answer.Status, j.Reason, x.Sent, x.Ended.Sub(x.Sent)
	t.watch.Attempted(event)
	if span.Ended != nil {
		span.Ended(event)
	}
	t.log.Debug().Str("order_no", t.Order.OrderNo()).Int64("timestamp", t.report.History.LastTimestamp).Int64("at_ns", x.Ended.UnixNano()).Stringer("verdict", j.Verdict).Int("status", x.Answer.Status).
		Str("reason", j.Reason).Int("attempt", t.report.History.Attempts).Stringer("key", pair.KeyPair).
		Dur("duration_ms", x.Ended.Sub(x.Sent)).Msg("attempt")

	if mistimed && !again && (j.Verdict == order.Denied || j.Verdict == order.Rejected) {
		return t.onMistimed(ctx, p)
	}
	end := t.applyToPool(ctx, p, pair, x, &j)
	if end != order.EndNone || again || j.Verdict == order.Denied { // whose pair works
		return end
	}
	return t.retryOrReturn(ctx, &j)
}

// judgement returns the verdict on an exchange.
func (t *submission) judgement(x *http1.Exchange) answer.Judgement {
	x.Answer.Scrub = t.keys.scrub.Load()
	if x.Answer.Status == 0 {
		detail := ""
		if x.Err != nil {
			detail = answer.Bounded(t.clean(x.Err.Error()), 500)
		}
		return answer.NoAnswer(x.Phase.MaySent(), x.Reason(), detail)
	}
	j := t.judge.Judgement(&x.Answer, t.report.History.Attempts)
	if after := t.capRetryAfter(answer.RetryAfter(x.Answer.Header, x.Ended)); after > j.Wait {
		j.Wait = after
	}
	if j.Throttle {
		t.ownThrottle(&j)
	}
	if j.AtProxy {
		j.Hold += ": " + t.client.ProxyAdvice()
	}
	j.Reason, j.Detail = answer.Bounded(t.clean(j.Reason), 200), answer.Bounded(t.clean(j.Detail), 500)
	return j
}

// ownThrottle makes the order wait by itself if the API throttles only this order.
func (t *submission) ownThrottle(j *answer.Judgement) {
	own := t.faults.failed(faultThrottle, t.Order.OrderNo(), &t.faults.api, time.Now())
	if own == 0 {
		return
	}
	if own == 1 {
		t.log.Warn().Str("order_no", t.Order.OrderNo()).Str("reason", t.clean(j.Reason)).Msg("the API throttles only this order and answers others: it waits by itself")
	}
	j.Throttle, j.Excused, j.Wait = false, own < throttleProofs, max(j.Wait, throttleWait)
	j.Detail = "only this order is throttled, while others are answered"
}

// record adds the attempt to the report. An unsure attempt puts the order in doubt.
func (t *submission) record(x *http1.Exchange, j *answer.Judgement) {
	r, h := t.report, &t.report.History
	t.before = *h
	r.Verdict, r.Final, r.Status, r.Reason = j.Verdict, j.Final, x.Answer.Status, j.Reason
	r.Response, r.Said, r.API, t.shown = t.excerpt(x.Answer.Body), "", nil, ""
	if j.Verdict.Created() {
		r.API = t.kept(&x.Answer)
	} else {
		r.Said, t.shown = x.Answer.Said(t.Order.OrderNo()), x.Answer.Shown()
	}
	r.Error = j.Detail
	if r.Error == "" && x.Err != nil {
		r.Error = answer.Bounded(t.clean(x.Err.Error()), 500)
	}
	if strings.Contains(r.Reason, r.Error) {
		r.Error = "" // people read both
	}
	switch {
	case j.Verdict.LeavesDoubt() && j.Hold != "" && j.Rule == 0 && x.Answer.Complete:
		t.keep(&x.Answer, order.Unexplained, j.Reason)
	case j.Verdict.LeavesDoubt():
		h.Doubt(j.Reason)
	case j.Verdict.Created(), j.Final:
		h.Unsure = false
	}
	if len(r.Trail) == maxTrail {
		r.Trail = append(r.Trail[:0], r.Trail[1:]...)
	}
	r.Trail = append(r.Trail, order.Attempt{At: h.LastAttemptAt, Verdict: j.Verdict, Status: x.Answer.Status,
		Reason: j.Reason, Rule: j.Rule, Answer: answer.Bounded(r.Response, maxTrailAnswer), DurationMS: x.Ended.Sub(x.Sent).Milliseconds()})
}

// kept returns the members of an answer that the rules keep.
func (t *submission) kept(a *answer.Answer) map[string]string {
	kept := t.judge.Rules.Kept(a)
	for name, text := range kept {
		kept[name] = t.clean(text)
	}
	return kept
}

// excerpt returns the part of a body that is recorded.
func (t *submission) excerpt(body []byte) string {
	return t.keys.scrub.Load().Excerpt(body, t.cfg.ResponseLimit)
}

// applyToPool applies the consequences of a verdict to the gate, the keys and the
// refusal detector, and releases the permit. It puts up blocks first, so no other
// order passes the gate in between.
func (t *submission) applyToPool(ctx context.Context, p *gate.Permit, pair *pairState, x *http1.Exchange, j *answer.Judgement) order.End {
	sig := gate.Signal{Verdict: j.Verdict, Failed: j.Failed}
	if j.Failed {
		sig.Cause, sig.Body = answer.Bounded(t.clean(causeOf(x, j.Reason)), 200), x.Answer.Shown()
	}
	if sig.Verdict.Conclusive() {
		t.faults.concluded(t.Order.OrderNo(), j.Verdict, pair, x.Sent)
	}
	if x.Answer.Status == 0 && ctx.Err() != nil {
		sig = gate.Signal{} // this process canceled the request, which shows nothing about the API
	}
	if j.Throttle {
		t.gate.Throttle(j.Wait, x.Sent)
		j.Wait = 0 // the order waits at the gate instead
	}
	if j.Hold != "" {
		t.gate.HoldByAnswer(gate.BlockAnswer, t.clean(j.Hold))
	}
	switch j.Verdict {
	case order.Accepted:
		t.refusals.orderCreated()
		p.Release(sig)
		return order.EndAnswer
	case order.Duplicate:
		if ruleAt := t.wrongRule(); ruleAt != "" {
			t.holdForRule(ruleAt)
		} else {
			t.refusals.orderKnown()
		}
		p.Release(sig)
		return order.EndAnswer
	case order.Rejected:
		return t.onRejected(ctx, p, sig, x, j)
	case order.Denied:
		return t.onDenied(ctx, p, pair, sig, x)
	default:
		p.Release(sig)
		return order.EndNone
	}
}

// onRejected holds a refusal back until the refusal detector believes or recalls it. One that the
// present rules call something else is recalled, too: the rules changed meanwhile.
func (t *submission) onRejected(ctx context.Context, p *gate.Permit, sig gate.Signal, x *http1.Exchange, j *answer.Judgement) order.End {
	orderNo := t.Order.OrderNo()
	awaits, full := t.reportRefusal(p, t.refusals, j, func() string { return t.refusalReason(j) })
	p.Release(sig)
	if !full && (awaits == nil || t.refusals.await(ctx, awaits) && t.refusedStill(x)) {
		t.endRecalledDoubt()
		return order.EndAnswer
	}
	t.faults.recall(orderNo)
	t.recall(x, j)
	return t.interruptedOr(ctx, order.EndHandBack)
}

// reportRefusal reports the refusal of the order to a detector; j is nil for one of the schema. If it
// completes the run, reportRefusal holds the pool for a reason. Both steps happen under one lock: a refusal between them would
// begin a new run, and be believed although the pool is held.
func (t *submission) reportRefusal(p *gate.Permit, to *refusalDetector, j *answer.Judgement, reason func() string) (awaits *refusalDecision, full bool) {
	t.reporting.Lock()
	defer t.reporting.Unlock()
	onTrial, held := t.gate.TrialOf(p, gate.BlockRefusals)
	awaits, full = to.report(t.Order.OrderNo(), held || j != nil && t.wrongAddress(j), j != nil && j.Rule > 0)
	if full && (onTrial || !held) {
		t.gate.HoldByAnswer(gate.BlockRefusals, reason())
	}
	return awaits, full
}

// wrongAddress reports whether a 404, or a status like it, means that the API's address is wrong.
// One such answer is enough. But if this order was recalled for it before, and the
// API created other orders since, the address is right and the order is to blame.
func (t *submission) wrongAddress(j *answer.Judgement) bool {
	return j.Misplaced && !(t.faults.suspected(t.Order.OrderNo()) && t.refusals.sawCreation())
}

func (t *submission) refusalReason(j *answer.Judgement) string {
	what := "(" + j.Reason + t.answered() + ")"
	if j.Rule > 0 {
		what = fmt.Sprintf("(%s said rejected: %s%s)", j.RuleAt, j.Reason, t.answered())
	}
	if j.Misplaced {
		return "the API does not know the address " + t.orders.String() + " " + what + ": is ORDERPOST_API_URL right? " +
			"If this answer is about single orders, write a rule for it into the ORDERPOST_RULES file"
	}
	return "a run of refusals of different orders without one acceptance, the last one " + what +
		": are ORDERPOST_API_URL and ORDERPOST_RULES right? If they are, resume. " + rulesAreReread
}

// onDenied shuts the gate because the API denied the key, and waits until it is
// known whether the key or this order is at fault.
func (t *submission) onDenied(ctx context.Context, p *gate.Permit, pair *pairState, sig gate.Signal, x *http1.Exchange) order.End {
	orderNo, detail := t.Order.OrderNo(), t.report.Reason+t.answered()
	proven, _ := t.gate.TrialOf(p, gate.BlockCredentials)
	if proven {
		detail += "; the account answers, but signed orders are denied: is the secret right?"
	}
	if t.faults.failed(faultDenial, orderNo, pair.shared, x.Ended) >= denialProofs {
		defer p.Release(sig)
		return t.atFault()
	}
	t.denied(pair, proven, detail)
	p.Release(sig)
	return t.awaitDenial(ctx, pair)
}

// atFault rejects a denied order, because the pair works for others.
func (t *submission) atFault() order.End {
	t.faults.forget(t.Order.OrderNo())
	t.report.Verdict, t.report.Reason = order.Rejected, "denied though others on the same pair are accepted"
	return order.EndAnswer
}

// retryOrReturn handles verdicts that do not settle the order. It waits for the next
// attempt, or ends the submission. Only here the total budget can end an order, and
// only after a failure: throttled, denied and recalled attempts exhaust no order.
func (t *submission) retryOrReturn(ctx context.Context, j *answer.Judgement) order.End {
	h, l := t.report.History, t.lookup()
	switch {
	case j.Verdict == order.Unsure && t.parks() && t.unexplained():
		return t.interruptedOr(ctx, order.EndHandBack)
	case j.Verdict == order.Unsure && ctx.Err() == nil && l != nil:
		return t.lookAgain(l.First)
	case j.Verdict == order.Unsure && t.cfg.OnUnsure == order.Park:
		return t.interruptedOr(ctx, order.EndAnswer)
	case ctx.Err() != nil:
		return t.interrupted(ctx, context.Cause(ctx))
	case !j.Throttle && !j.Excused && spent(&t.cfg, h, time.Now()):
		return order.EndTotalBudget
	}
	wait, ok := t.budget.next(j.Wait)
	if !ok {
		t.report.Delay = t.untilDeadline(t.budget.delay(h, j.Wait))
		t.watch.Retrying(t.report.Delay, true)
		return order.EndSubmissionBudget
	}
	wait = t.untilDeadline(wait)
	t.watch.Retrying(wait, false)
	return t.wait(ctx, wait)
}

// awaitDenial waits until it is known whether the pair or the order is at fault. If no
// other order tries the pair, the denied one must try it again itself: EndNone. It goes back to
// the queue if the pair is bad, or nobody knows after denialWait.
func (t *submission) awaitDenial(ctx context.Context, pair *pairState) order.End {
	long := time.NewTimer(denialWait)
	defer long.Stop()
	for {
		gateChanged := t.gate.Changed()
		left, trying := t.gate.SuspectWait(gate.BlockCredentials)
		proven, fresh, changed := t.faults.provenSince(t.Order.OrderNo())
		switch {
		case fresh && proven >= denialProofs:
			return t.atFault()
		case fresh:
			return order.EndNone
		case !t.keys.inUse(pair), t.gate.IsDraining():
			return t.interruptedOr(ctx, order.EndHandBack)
		case trying && left <= 0:
			return order.EndNone
		}
		var due <-chan time.Time
		if trying {
			due = time.After(left)
		}
		select {
		case <-changed:
		case <-gateChanged:
		case <-due:
		case <-long.C:
			return order.EndHandBack
		case <-ctx.Done():
			return t.interrupted(ctx, context.Cause(ctx))
		}
	}
}

// mistimed reports whether the API refused the attempt for its timestamp: a rule says so, or it
// is a denial of a timestamp that the API's clock does not explain. Then the answer says nothing
// about the key or the order.
func (t *submission) mistimed(x *http1.Exchange, j *answer.Judgement) bool {
	wrong := t.clock.wrong(t.report.History.LastTimestamp, x.Answer.Header, x.Sent, x.Ended)
	named := namesTime(x.Answer.Body)
	switch {
	case j.Verdict.Created():
		t.clock.accepted(wrong)
		return false
	case j.Verdict == order.Denied:
	case j.Verdict == order.Rejected && named && !j.Final && j.Rule == 0:
	default:
		return j.TimeError
	}
	return j.TimeError || wrong > t.clock.limitFor(named)
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

// answered quotes the beginning of the last answer.
func (t *submission) answered() string {
	if t.shown == "" {
		return ""
	}
	return "; it was answered: " + t.shown
}

// causeOf says in a few words why a request failed: what is wrong on the way to the
// API, or which status came from which server.
func causeOf(x *http1.Exchange, reason string) string {
	if x.Answer.Status == 0 {
		return reason + x.Detail()
	}
	if x.Answer.Status < 500 {
		return reason
	}
	return fmt.Sprintf("status %d%s", x.Answer.Status, serverOf(x))
}

func serverOf(x *http1.Exchange) string {
	if server := x.Answer.Header.Get("Server"); server != "" {
		return " by " + x.Answer.Excerpt([]byte(server), 64)
	}
	return ""
}
