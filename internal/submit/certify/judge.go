package certify

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/submit/http1"
)

// shown returns an answer in a line, without the key.
func (l *learner) shown(s *seen) string {
	if s.x.Phase != http1.PhaseDone {
		return s.x.Reason() + s.x.Detail()
	}
	body := strings.ReplaceAll(s.answer().Shown(), l.Pair.Key, "****")
	return strings.TrimSpace(fmt.Sprintf("%d %s", s.answer().Status, body))
}

// created reports whether an answer is of the kind that orders get which succeed.
func (l *learner) created(s *seen) bool { return same(s, l.first) }

// refused reports whether there is a whole answer of another kind, which is no failure of the API itself.
func (l *learner) refused(s *seen) bool {
	return s != nil && s.x.Phase == http1.PhaseDone && s.answer().Status < 500 && !l.created(s)
}

// same reports whether two answers are of one kind.
func same(a, b *seen) bool { return a != nil && b != nil && a.said() == b.said() }

// original reports whether the answer to the repeated order shows a value that only the first one has. The second
// order was sent in between, so such a value is no clock and no counter.
func (l *learner) original() bool {
	value := func(s *seen) map[string]string {
		all := make(map[string]string)
		for _, m := range members(s.answer()) {
			if !m.list && !strings.Contains(m.text, s.no) {
				all[m.path] = m.text
			}
		}
		return all
	}
	if !l.created(l.second) || !l.created(l.repeat) {
		return false
	}
	second, repeat := value(l.second), value(l.repeat)
	for path, v := range value(l.first) {
		if second[path] != "" && second[path] != v && repeat[path] == v {
			return true
		}
	}
	return false
}

// conclude says what the answers show, once all were asked for.
func (l *learner) conclude() *Findings {
	f := &Findings{Orders: l.numbers, Answers: l.all, policy: order.Park, shown: l.shown}
	f.show("GET /v1/account, which a worker asks at its start, is answered %s", l.shown(l.account))
	l.successes(f)
	l.repetitions(f)
	l.credentials(f)
	l.timestampsShow(f)
	l.incompleteShows(f)
	l.burstShows(f)
	l.connections(f)
	l.lookupShows(f)
	f.unknown("refusals of orders that are right in form, such as one without funds: write their rules when they come")
	f.unknown("what the API answers while it is overloaded, and whether it created the order then")
	return f
}

// learn adds a rule, unless a worker judges the answers so without one, or cannot tell them from others.
func (l *learner) learn(f *Findings, r rule, needed bool) bool {
	if !needed && !slices.ContainsFunc(r.from, func(s *seen) bool {
		j := s.judgement()
		return j.Verdict.String() != r.verdict || j.Hold != "" || j.Misplaced
	}) {
		return true
	}
	if slices.ContainsFunc(f.Rules, func(o rule) bool {
		return o.verdict == r.verdict && slices.Equal(o.more, r.more) && matcher(o.when)(r.from[0])
	}) {
		return true
	}
	others := slices.DeleteFunc(slices.Clone(l.all), func(s *seen) bool {
		return s.x.Phase != http1.PhaseDone || slices.ContainsFunc(slices.Concat(r.from, r.alike), func(own *seen) bool { return same(own, s) })
	})
	if !r.choose(others...) {
		f.unknown("%s: its answer (%s) is not told from others, so there is no rule for it", r.name, l.shown(r.from[0]))
		return false
	}
	f.Rules = append(f.Rules, r)
	return true
}

func (l *learner) successes(f *Findings) {
	if !l.created(l.second) || !l.created(l.control) {
		f.unknown("orders that succeed: three new ones were answered differently (%s; %s; %s)", l.shown(l.first), l.shown(l.second), l.shown(l.control))
		return
	}
	f.show("orders that succeed are answered %s", l.shown(l.first))
	for name, s := range map[string]*seen{"a wrong signature": l.badSignature, "an unknown key": l.unknownKey, "a missing timeout": l.incomplete} {
		if l.created(s) {
			f.unknown("%s: the API answers as if it had created the order", name)
		}
	}
	f.success = l.learn(f, rule{name: "created", verdict: "accepted", from: []*seen{l.first, l.second, l.control}}, false)
}

// repetitions decides the policy: a repeated number must be refused in an answer of its own kind, or be recognised.
func (l *learner) repetitions(f *Findings) {
	steady := l.created(l.control) // otherwise something else than the number may be refused
	switch {
	case l.original():
		f.policy = order.Resubmit
		f.show("a repeated order_no returns the original order: %s", l.shown(l.repeat))
	case l.created(l.repeat):
		f.unknown("whether a repeated order_no creates a second order: the answer (%s) has nothing of the first one's. Look at the API whether %s exists twice", l.shown(l.repeat), l.first.no)
	case l.refused(l.repeat) && steady && !same(l.repeat, l.badSignature) && !same(l.repeat, l.unknownKey) && !same(l.repeat, l.incomplete) && !same(l.repeat, l.throttled):
		from := []*seen{l.repeat}
		if same(l.afterCut, l.repeat) {
			from = append(from, l.afterCut)
		}
		if l.learn(f, rule{name: "the order_no exists", verdict: "duplicate", from: from}, false) {
			f.policy = order.Resubmit
			f.show("a repeated order_no is refused: %s", l.shown(l.repeat))
		}
	default:
		f.unknown("whether a repeated order_no is refused: it was answered %s, which other requests are, too", l.shown(l.repeat))
	}
	switch {
	case l.created(l.replay):
		f.show("the same request again is answered as the first one was")
	case l.refused(l.replay) && !same(l.replay, l.repeat) && !same(l.replay, l.badSignature):
		f.show("the same request again is refused as a replay: %s", l.shown(l.replay))
		l.learn(f, rule{name: "the request was seen before", verdict: "unsure", more: []string{"reason: request seen before"}, from: []*seen{l.replay}}, false)
	}
	switch {
	case l.otherBody == nil:
		f.unknown("another body under the same number: the order has no whole number in timeout to change")
	case l.created(l.otherBody):
		f.show("another body under the same number is answered as a success: %s", l.shown(l.otherBody))
	default:
		f.show("another body under the same number is answered %s", l.shown(l.otherBody))
		if l.refused(l.otherBody) && !same(l.otherBody, l.repeat) {
			l.learn(f, rule{name: "the order_no exists with another body", verdict: "unsure", more: []string{"reason: order_no exists with another body"}, from: []*seen{l.otherBody}}, false)
		}
	}
	switch {
	case l.cut != nil:
		f.unknown("an order whose connection is cut: %v", l.cut)
	case same(l.afterCut, l.repeat) && !l.created(l.afterCut):
		f.show("an order whose connection is cut is created all the same")
	case l.afterCut != nil:
		f.show("an order whose connection was cut, sent again, is answered %s", l.shown(l.afterCut))
	}
}

func (l *learner) credentials(f *Findings) {
	for _, s := range []*seen{l.badSignature, l.unknownKey} {
		if !l.refused(s) {
			f.unknown("%s: it is answered %s", s.what, l.shown(s))
			continue
		}
		f.show("%s is answered %s", s.what, l.shown(s))
		if s == l.unknownKey && same(s, l.badSignature) {
			continue
		}
		l.learn(f, rule{name: s.what, verdict: "denied", more: []string{"reason: " + strings.TrimPrefix(strings.TrimPrefix(s.what, "an "), "a ")}, from: []*seen{s}}, false)
	}
}

func (l *learner) timestampsShow(f *Findings) {
	var old, ahead time.Duration
	var kinds [][]*seen
	for _, s := range l.times {
		switch {
		case l.created(s):
			old, ahead = max(old, -s.shift), max(ahead, s.shift)
			continue
		case !l.refused(s) || same(s, l.badSignature):
			f.unknown("%s: it is answered %s", s.what, l.shown(s))
			continue
		}
		at := slices.IndexFunc(kinds, func(k []*seen) bool { return same(k[0], s) })
		if at < 0 {
			kinds, at = append(kinds, nil), len(kinds)
		}
		kinds[at] = append(kinds[at], s)
	}
	l.window = max(old, ahead)
	f.show("timestamps are taken from %s behind to %s ahead, of those tried (1m, 10m, 2h)", old, ahead)
	for _, from := range kinds {
		f.show("%s is refused: %s", from[0].what, l.shown(from[0]))
		l.learn(f, rule{name: "the timestamp is refused", verdict: "denied", more: []string{"time_error: true", "reason: timestamp refused"}, from: from, alike: slices.Concat(kinds...)}, true)
	}
	if l.clock != 0 {
		f.show("the API's clock is %s from this machine's", l.clock)
		if smallest := min(old, ahead); l.clock.Abs() > max(smallest, 10*time.Second)/2 {
			f.set("CLOCK", "server", "the API's clock is %s from this machine's", l.clock)
		}
	}
}

func (l *learner) incompleteShows(f *Findings) {
	if !l.refused(l.incomplete) {
		f.unknown("a missing field: an order without timeout is answered %s", l.shown(l.incomplete))
		return
	}
	f.show("an order without timeout is refused: %s", l.shown(l.incomplete))
	l.learn(f, rule{name: "a field is missing", verdict: "rejected", more: []string{"reason: field missing"}, from: []*seen{l.incomplete}}, false)
}

// burstShows reads the first answer of another kind as a throttle only if the API says 429, or created the order later.
func (l *learner) burstShows(f *Findings) {
	switch t := l.throttled; {
	case l.Burst == 0:
		f.unknown("the rate limit: there was no burst (--burst)")
	case t == nil:
		f.show("%d orders at once were not throttled", l.Burst)
	case t.answer().Status == http.StatusTooManyRequests || l.refused(t) && l.throttleProven:
		f.show("after %d orders in %s the API throttles: %s", l.burstSent, l.burstTook.Round(time.Millisecond), l.shown(t))
		l.learn(f, rule{name: "too many requests", verdict: "retry", more: []string{"throttle: true", "wait: " + l.throttleWait.String(), "reason: too many requests"}, from: []*seen{t}},
			!t.judgement().Throttle)
		if rate := float64(l.burstSent) / max(l.burstTook, l.throttleWait).Seconds(); rate >= 1 {
			f.set("RATE_LIMIT", fmt.Sprintf("%.0f", rate), "%d orders went before the first throttle, which asks for %s", l.burstSent, l.throttleWait)
		}
	default:
		f.unknown("what this answer in the middle of a burst means: %s", l.shown(t))
	}
}

// connections turns the longest idle time that a connection survived into a setting below it.
func (l *learner) connections(f *Findings) {
	var longest time.Duration
	for _, d := range l.Idle {
		open, known := l.idle[d]
		switch {
		case !known:
			f.unknown("whether a connection survives %s without a request", d)
			return
		case !open:
			f.show("a connection is closed within %s without a request", d)
			if longest == 0 {
				longest = d / 2
			}
			f.set("IDLE_TIMEOUT", (longest * 4 / 5).String(), "the API closes a connection within %s", d)
			return
		}
		longest = d
	}
	if longest > 0 {
		f.show("a connection is still open after %s without a request", longest)
		f.set("IDLE_TIMEOUT", (longest * 4 / 5).String(), "a connection was still open after %s", longest)
	}
}
