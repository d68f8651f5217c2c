package submit

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/gate"
	"orderpost/internal/submit/http1"
)

// recall calls the refusal of the last attempt back and keeps its answer. If a rule gave
// the refusal, the order is in doubt from now on (R3).
func (t *submission) recall(x *http1.Exchange, j *answer.Judgement) {
	r := t.report
	r.Error = "refusal called back: it is not clear whether the order is to blame or the settings"
	r.Final = false // a rule that may be wrong proves nothing
	r.Trail[len(r.Trail)-1].CalledBack = true
	t.keep(&x.Answer, j.Rule, j.Reason)
}

// keep keeps the answer to the last attempt, so that other rules may judge it.
func (t *submission) keep(a *answer.Answer, rule int, reason string) {
	r := t.report
	r.History.Recall(t.before, order.Recalled{
		At: r.History.LastAttemptAt, Attempt: r.History.Attempts, Status: a.Status, MediaType: a.Excerpt([]byte(a.Header.Get("Content-Type")), 64),
		Answer: r.Response, Part: !a.Complete || r.Response != string(a.Body), Said: r.Said,
		Rule: rule, Reason: reason, BodyHash: t.Order.BodyHash(),
	})
}

// unexplained reports whether all doubt is about answers that no rule explained.
func (t *submission) unexplained() bool {
	h := &t.report.History
	return h.Settleable() && h.Recalled.Rule == order.Unexplained
}

// refusedStill reports whether the present rules call an answer a refusal.
func (t *submission) refusedStill(x *http1.Exchange) bool {
	j := t.judge.Judgement(&x.Answer, t.report.History.Attempts)
	return j.Verdict == order.Rejected
}

// judgeRecalled judges the answer of an attempt that was called back, of an order in doubt, by the present
// rules. There is no verdict if no answer to this body was kept, or no rule can judge it.
func (t *submission) judgeRecalled() (j answer.Judgement) {
	k := &t.report.History.Recalled
	if k.Rule == 0 || k.Part || k.BodyHash != t.Order.BodyHash() || t.judge.Rules.ReadHeaders(k.Status) {
		return j
	}
	a := answer.Answer{Status: k.Status, Header: http.Header{"Content-Type": {k.MediaType}}, Body: []byte(k.Answer), Complete: true, Scrub: t.keys.scrub.Load()}
	a.Examine(t.Order.OrderNo())
	return t.judge.RecalledJudgement(&a, k.Attempt)
}

// decideByRecalled decides by the answer of an attempt that was called back, before another attempt
// is made. If the present rules call it accepted, it settles the order. So it is if nobody had explained
// it, and they call it a refusal; if they say that it had no effect, the order is posted.
//
// Under park, the order waits while the run of refusals, or such answers, hold the pool. Then the refusals
// are believed and the rules call this one a refusal, too, or the order is parked.
func (t *submission) decideByRecalled(ctx context.Context) order.End {
	h := &t.report.History
	var patience <-chan time.Time
	for {
		changed := t.gate.Changed()
		j := t.judgeRecalled()
		switch {
		case j.Verdict == order.Accepted, j.Verdict == order.Rejected && t.unexplained():
			t.decideBy(&j)
			return order.EndAnswer
		case j.Verdict == order.Retry && t.unexplained():
			h.Unsure = false
			return order.EndNone
		case !t.parks():
			return order.EndNone
		case h.Settleable() && t.gate.Stands(gate.BlockRefusals), t.unexplained() && t.awaitsRule():
		case h.Settleable() && j.Verdict == order.Rejected && t.refusals.believes():
			h.Unsure = false
			return order.EndNone
		case t.lookup() != nil:
			return order.EndNone
		default:
			t.report.Verdict, t.report.Reason = order.Unsure, "parked: an earlier attempt may have created it"
			return order.EndAnswer
		}
		if patience == nil {
			timer := time.NewTimer(t.cfg.GatePatience)
			defer timer.Stop()
			patience = timer.C
		}
		began := time.Now()
		select {
		case <-changed:
		case <-patience:
			return order.EndHandBack
		case <-ctx.Done():
			return t.interrupted(ctx, context.Cause(ctx))
		case <-t.gate.Draining():
			return t.interrupted(ctx, gate.ErrDraining)
		}
		t.waitedAtGate(time.Since(began))
	}
}

// awaitsRule reports whether the answers that no rule explains hold the pool, and other orders can end that hold. If
// nobody has tried for the longest delay although one may, this order is all there is, and it may not be posted.
func (t *submission) awaitsRule() bool {
	left, trying := t.gate.SuspectWait(gate.BlockAnswer)
	alone := trying && left <= 0 && time.Since(t.report.History.LastAttemptAt) > t.cfg.RetryDelayMax
	return t.gate.Stands(gate.BlockAnswer) && !alone
}

// parks reports whether an order in doubt is not posted again.
func (t *submission) parks() bool { return t.cfg.OnUnsure == order.Park && !t.Allowed }

// decideBy makes the kept answer, which the present rules explain, the report's.
func (t *submission) decideBy(j *answer.Judgement) {
	r, k := t.report, &t.report.History.Recalled
	r.Verdict, r.Status, r.Response, r.Said, r.Reason = j.Verdict, k.Status, k.Answer, k.Said, answer.Bounded(t.clean(j.Reason), 200)
	r.Error = fmt.Sprintf("the answer of %s, judged again: %s", k.At.UTC().Format(time.RFC3339), k.WhatSaid())
	r.Final, r.History.Unsure = j.Final, false
	t.log.Info().Str("order_no", t.Order.OrderNo()).Int("status", k.Status).Str("reason", r.Reason).Stringer("verdict", j.Verdict).Msg("order settled by an answer that was kept")
}

// endRecalledDoubt is called for a refusal that is believed. If all doubt is about answers that
// were called back, and the present rules call them refusals, too, the doubt ends.
func (t *submission) endRecalledDoubt() {
	if h := &t.report.History; h.Settleable() && t.judgeRecalled().Verdict == order.Rejected {
		h.Unsure = false
	}
}

// wrongRule returns the rule that a duplicate answer shows to be wrong: the only attempt
// that can have created the order is one that this rule calls a refusal still.
func (t *submission) wrongRule() (ruleAt string) {
	if !t.report.History.Settleable() || t.refusals.trusted() {
		return ""
	}
	if j := t.judgeRecalled(); j.Verdict == order.Rejected {
		return j.RuleAt
	}
	return ""
}

// holdForRule holds the pool because a rule is wrong. It calls back the refusals that
// wait: a duplicate would make them believed otherwise.
func (t *submission) holdForRule(ruleAt string) {
	t.reporting.Lock()
	defer t.reporting.Unlock()
	k := &t.report.History.Recalled
	t.refusals.report(t.Order.OrderNo(), true, true)
	t.gate.HoldByAnswer(gate.BlockRefusals, fmt.Sprintf("a rule is wrong: %s called the answer to order %s a refusal (%s), and the API has the order: correct the rule. %s",
		ruleAt, t.Order.OrderNo(), answer.Bounded(t.clean(k.Answer), 200), rulesAreReread))
}

// rulesAreReread ends the reason of a hold that a better rules file ends.
const rulesAreReread = "The worker reads the ORDERPOST_RULES file again when it changes, and judges the answers that were called back again"
