package answer

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"orderpost/internal/order"
)

// Judgement is the verdict on one attempt and what follows from it.
type Judgement struct {
	Verdict order.Verdict
	// Final says that the answer proves that no order exists under this order_no.
	Final bool
	// Reason is short and stable, for grouping. Detail is for people.
	Reason, Detail string
	// Wait is the shortest time before the next attempt.
	Wait time.Duration
	// Throttle applies Wait to the whole pool (429, or by rule).
	Throttle bool
	// Excused says that a throttle concerns this order alone and does not count
	// against its retry budget yet.
	Excused bool
	// TimeError says that the API refused the timestamp.
	TimeError bool
	// Hold, if not empty, stops the pool. It says why, for example because a 2xx
	// answer is unreadable.
	Hold string
	// Misplaced marks a 404, or a status like it, without a rule: the URL or the path is wrong.
	Misplaced bool
	// AtProxy says that a proxy answered in place of the API.
	AtProxy bool
	// Failed says that the API, or the way to it, looks broken. The breaker counts it.
	Failed bool
	// Rule is the 1-based number of the rule that matched; 0 = built in.
	Rule int
	// RuleAt names that rule, its file and its line, for people.
	RuleAt string
	// otherOrderNo says that the rule accepts another order_no in the answer.
	otherOrderNo bool
	// untested says that a rule with the verdict accepted reads the body, and did not
	// match this one.
	untested bool
}

// NoAnswer returns the judgement of an attempt without an answer. maySent says
// that a part of the request may have reached the API. reason is the stable phrase
// for the transport error.
func NoAnswer(maySent bool, reason, detail string) Judgement {
	j := Judgement{Verdict: order.Retry, Reason: reason, Detail: detail, Failed: true}
	if maySent {
		j.Verdict = order.Unsure
	}
	return j
}

// Judge decides what an answer means. It is safe for concurrent use.
type Judge struct {
	Rules *Rules // nil = none

	repeats atomic.Bool // the API has repeated the order_no of an order that it accepted
}

// Judgement decides what the answer to an attempt means, in this order: is it the answer to
// this request, which rule matches, what does the status say, and does the body bear it out?
// A verdict that the body does not bear out becomes unsure, and holds the pool.
func (g *Judge) Judgement(a *Answer, attempt int) Judgement {
	if a.Stray {
		return Judgement{Verdict: order.Unsure, Failed: true, Reason: "the answer may be another request's",
			Detail: "it was there before the request was sent, or more follows it; its connection was closed"}
	}
	a.Examine("")
	j := g.Rules.Judge(a, attempt)
	accepted, doubt := j.Verdict == order.Accepted, ""
	switch {
	case j.Verdict == order.Unsure:
	case !j.otherOrderNo && a.AboutAnother(accepted):
		return g.aboutAnother(a, j.Wait)
	case j.Rule > 0: // whoever wrote it knows
	case j.Verdict.Exists() && !a.Complete: // the connection is at fault, and a rule would not help
		return Judgement{Verdict: order.Unsure, Failed: true, Reason: fmt.Sprintf("status %d, but its body was cut short or too long", a.Status)}
	case accepted:
		doubt = a.doubtsAccepted(j.untested)
	case j.Verdict.Exists():
		doubt = a.doubtsDuplicate()
	default:
		doubt = a.doubtsNotCreated()
	}
	if doubt != "" {
		return a.undecided(doubt)
	}
	if accepted && a.findings.ours && !g.repeats.Load() {
		g.repeats.Store(true)
	}
	return j
}

// RecalledJudgement is Judgement for an answer that was kept because a rule called it a refusal.
// Without another rule, it is an acceptance only if it says success and repeats our order_no.
func (g *Judge) RecalledJudgement(a *Answer, attempt int) Judgement {
	j := g.Judgement(a, attempt)
	if f := &a.findings; j.Verdict == order.Accepted && j.Rule == 0 && !(f.ours && f.success) {
		return a.undecided("no rule accepts it, and one called it a refusal")
	}
	return j
}

// Judge returns the judgement of the first rule that matches, or else of the status. Rules may
// be nil. attempt is the number of the attempt.
//
// Of an answer that was cut short, only the status and the headers are known: at the first rule
// that reads the body and might match the status, the verdict is unsure. So it is if a rule reads
// the body's members, and the body begins like JSON but is none.
func (r *Rules) Judge(a *Answer, attempt int) Judgement {
	if r = r.now(); len(r.list) == 0 {
		return byStatus(a)
	}
	env, began, untested := a.env(attempt), time.Now(), false
	for i := range r.list {
		one := &r.list[i]
		if !one.mayMatch(a.Status) {
			continue
		}
		if !a.Complete && one.body {
			return Judgement{Verdict: order.Unsure, Failed: true, Reason: fmt.Sprintf("status %d, answer cut short", a.Status),
				Detail: fmt.Sprintf("rule %d cannot be asked without the body", one.number)}
		}
		if one.json && a.unreadable() {
			return a.undecided(fmt.Sprintf("its body is not valid JSON in UTF-8, so rule %d cannot be asked", one.number))
		}
		holds, err := one.holds(env)
		if err != nil || !holds && time.Since(began) > ruleTime {
			return one.stopped(a)
		}
		if holds {
			return one.judgement()
		}
		untested = untested || one.verdict == order.Accepted && one.body
	}
	j := byStatus(a)
	j.untested = untested
	return j
}

func (r *rule) judgement() Judgement {
	j := Judgement{Verdict: r.verdict, Final: r.Final, Reason: r.Reason, Detail: r.Name, Wait: r.wait,
		Throttle: r.Throttle, TimeError: r.TimeError, Failed: r.verdict == order.Unsure, Rule: r.number, RuleAt: r.at, otherOrderNo: r.OtherOrderNo}
	if j.Reason == "" {
		j.Reason = fmt.Sprintf("rule %d", r.number)
	}
	return j
}

// stopped returns the judgement of an answer if the rule takes too long or too much
// memory. Later rules must not speak for it.
func (r *rule) stopped(a *Answer) Judgement {
	what := fmt.Sprintf("rule %d (line %d, %q) was stopped: the rules up to it took more than %s, or it took too much memory, for an answer of %d bytes",
		r.number, r.line, Bounded(r.When, 100), ruleTime, len(a.Body))
	return Judgement{Verdict: order.Unsure, Reason: fmt.Sprintf("rule %d takes too long", r.number), Detail: what, Rule: r.number,
		Hold: "an answer was not understood: " + what + ". Make the rule in the ORDERPOST_RULES file simpler. " + a.beginning()}
}

// byStatus returns the judgement of the status alone. The table in docs/rules.md gives the
// reason for each status, and a test compares the two.
func byStatus(a *Answer) Judgement {
	by := func(v order.Verdict, word string) Judgement {
		return Judgement{Verdict: v, Reason: fmt.Sprintf("%s by status %d", word, a.Status)}
	}
	// held is for an answer that does not tell, and that later orders will get, too.
	held := func(what string) Judgement {
		j := by(order.Unsure, "left open")
		j.Detail, j.Hold = what, a.holdReason(j.Reason, what, "status == "+strconv.Itoa(a.Status), "")
		return j
	}
	switch s := a.Status; {
	case s == http.StatusOK, s == http.StatusCreated, s == http.StatusAccepted, s == http.StatusNoContent:
		return by(order.Accepted, "accepted")
	case s == http.StatusAlreadyReported, s == http.StatusConflict, s == http.StatusPreconditionFailed:
		return by(order.Duplicate, "duplicate")
	case s >= 200 && s < 300:
		return held("this status does not say that the order was created")
	case s >= 300 && s < 400:
		to := ""
		if l := a.Header.Get("Location"); l != "" {
			to = " to " + a.Excerpt([]byte(l), 200)
		}
		return held("it is a redirect" + to + ", which orderpost does not follow, because a signed order is not handed to another address: is ORDERPOST_API_URL right")
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return by(order.Denied, "denied")
	case s == http.StatusNotFound, s == http.StatusMethodNotAllowed, s == http.StatusGone, s == http.StatusMisdirectedRequest, s == http.StatusUpgradeRequired:
		j := by(order.Rejected, "refused")
		j.Misplaced = true
		return j
	case s == http.StatusProxyAuthRequired, s == http.StatusNetworkAuthenticationRequired:
		j := by(order.Retry, "put off")
		j.AtProxy, j.Excused = true, true
		j.Hold = fmt.Sprintf("a proxy on the way asks for credentials (%d), so no order reaches the API", s)
		return j
	case s == http.StatusTooEarly:
		return by(order.Retry, "put off")
	case s == http.StatusTooManyRequests:
		j := by(order.Retry, "put off")
		j.Throttle = true
		return j
	case s == http.StatusRequestTimeout, s == statusClientGoneALB, s == statusClientGone:
		j := by(order.Unsure, "left open")
		j.Failed, j.Detail = true, "proxies answer so for requests that the API carried out"
		return j
	case s == http.StatusBadRequest, s == http.StatusPaymentRequired, s == http.StatusLengthRequired, s == http.StatusRequestEntityTooLarge,
		s == http.StatusRequestURITooLong, s == http.StatusUnsupportedMediaType, s == http.StatusExpectationFailed, s == http.StatusTeapot,
		s == http.StatusUnprocessableEntity, s == http.StatusLocked, s == http.StatusPreconditionRequired, s == http.StatusRequestHeaderFieldsTooLarge,
		s == http.StatusUnavailableForLegalReasons, s == http.StatusNotImplemented, s == http.StatusHTTPVersionNotSupported:
		return by(order.Rejected, "refused")
	case s >= 400 && s < 500:
		return held("this status does not say that the order was not created")
	default: // 5xx, a final 1xx, and invalid statuses
		j := by(order.Unsure, "left open")
		j.Failed = true
		return j
	}
}

// What two kinds of proxy say if their client went away before the answer.
const (
	statusClientGoneALB = 460
	statusClientGone    = 499
)

// aboutAnother returns the judgement of an answer that names another order. It holds the pool,
// unless the API is known to repeat our order_no: it may use this name for a number of its own,
// and only a rule can tell.
func (g *Judge) aboutAnother(a *Answer, wait time.Duration) Judgement {
	what := "it names order_no " + a.ruleLiteral(a.findings.other) + ", which is not the order's"
	j := Judgement{Verdict: order.Unsure, Failed: true, Wait: wait, Reason: fmt.Sprintf("status %d, but about another order", a.Status), Detail: what}
	if !g.repeats.Load() {
		j.Hold = a.holdReason(j.Reason, what, "status == "+strconv.Itoa(a.Status), "\n    other_order_no: true   # only where the API has numbers of its own under this name")
	}
	return j
}

// doubtsAccepted says why a body does not bear out that the order was created; "" = it does.
// It must say success in a member for programs, or repeat our order_no without a text that may
// say anything. untested says that a rule tells which answers are accepted, and this is none.
func (a *Answer) doubtsAccepted(untested bool) string {
	f := &a.findings
	switch {
	case len(a.Body) == 0:
		return "its body is empty"
	case !f.object:
		return "its body is not a JSON object"
	case f.contradiction != "" && f.contradictionValue == nil:
		return "its body has " + strings.TrimPrefix(f.contradiction, "body.")
	case f.contradiction != "":
		return "its body says " + strings.TrimPrefix(f.contradiction, "body.") + " = " + a.ruleLiteral(f.contradictionValue)
	case f.success:
		return ""
	case untested:
		return "no rule accepts it"
	case !f.ours:
		return "it neither says success nor repeats our order_no"
	case f.unclear:
		return "it does not say success, and has a text that may mean anything"
	default:
		return ""
	}
}

// doubtsDuplicate says why a body does not bear out that the order exists. After an attempt in
// doubt that counts as an acceptance, and APIs use 409 for other refusals, too. So it takes a
// known code, or an answer that would be an acceptance and repeats our order_no.
func (a *Answer) doubtsDuplicate() string {
	f := &a.findings
	returned := f.object && f.contradiction == "" && f.success && f.ours && !f.unclear && f.other == nil
	switch {
	case f.denied:
		return "it says that the order was not created"
	case f.otherIsNumber, !f.exists && !returned:
		return "no code in it says that the order exists"
	default:
		return ""
	}
}

// doubtsNotCreated says why a body does not bear out that no order was created.
func (a *Answer) doubtsNotCreated() string {
	switch f := &a.findings; {
	case (f.exists || f.mentions) && !f.denied:
		return "it may say that the order exists"
	case f.created && f.contradiction == "":
		return "it says that the order was created"
	default:
		return ""
	}
}

// undecided returns the judgement of an answer that leaves the order in doubt. It holds
// the pool: later orders get such answers, too, and only a rule can tell.
func (a *Answer) undecided(what string) Judgement {
	reason := fmt.Sprintf("status %d, but %s", a.Status, what)
	return Judgement{Verdict: order.Unsure, Reason: reason, Detail: what, Hold: a.holdReason(reason, what, a.condition(), "")}
}
