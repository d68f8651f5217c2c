package certify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/submit/answer"
	"orderpost/internal/submit/http1"
)

// lookupPatience is how long an order that was created may be invisible to lookups.
const lookupPatience = 30 * time.Second

// lookups are what asking for orders showed.
type lookups struct {
	absent           *seen // the answer about a number that was never sent
	created, present *seen // an order, and the first answer that is not like absent
	lag              time.Duration
}

// ParseLookup reads a request such as GET /v1/order/{order_no}.
func ParseLookup(request string) (*answer.Lookup, error) {
	rules, err := answer.ParseRules("--lookup", []byte("lookup:\n  request: "+strconv.Quote(request)+"\n  rules: [{when: status == 200, verdict: exists}]\n"))
	if err != nil {
		if one, ok := errors.AsType[*answer.RulesError](err); ok {
			err = errors.New(strings.TrimPrefix(one.Msg, "lookup: "))
		}
		return nil, fmt.Errorf("--lookup: %w", err)
	}
	return rules.Lookup(), nil
}

// lookUp asks for a number that was never sent, creates an order, and asks for it until the answer is another one.
func (l *learner) lookUp(ctx context.Context) error {
	if l.Lookup == nil {
		return nil
	}
	none := strings.ReplaceAll(l.OrderNo, "{n}", "0") // orders count from 1
	l.tell("a lookup of an order that does not exist (%s)", none)
	var err error
	if l.looks.absent, err = l.look(ctx, "a lookup of an order that does not exist", none); err != nil {
		return err
	}
	l.all = append(l.all, l.looks.absent)
	if err := l.try(ctx, try{what: "an order that is looked up", to: &l.looks.created}); err != nil || !l.created(l.looks.created) {
		return err
	}
	l.tell("looking up %s until it is found", l.looks.created.no)
	for began := time.Now(); time.Since(began) < lookupPatience; {
		s, err := l.look(ctx, "a lookup of an order that was created", l.looks.created.no)
		if err != nil {
			return err
		}
		if s.x.Phase == http1.PhaseDone && s.answer().Status < 500 && !same(s, l.looks.absent) {
			l.looks.present, l.looks.lag = s, time.Since(began)
			l.all = append(l.all, s)
			return nil
		}
	}
	return nil
}

// look asks for an order.
func (l *learner) look(ctx context.Context, what, no string) (*seen, error) {
	path, ok := l.Lookup.Path(no)
	if !ok {
		return nil, fmt.Errorf("no path can name the order %q", no)
	}
	if err := settle.Sleep(ctx, l.Pause); err != nil {
		return nil, err
	}
	s := &seen{what: what, no: no, x: l.client.Look(ctx, l.Pair.Key, no, path)}
	return s, ctx.Err()
}

// lookupShows makes the rules of the section lookup.
func (l *learner) lookupShows(f *Findings) {
	k := &l.looks
	switch {
	case l.Lookup == nil:
		f.unknown("a lookup: no request for one was given (--lookup)")
		return
	case !l.created(k.created):
		f.unknown("a lookup: the order that should be looked up was answered %s", l.shown(k.created))
		return
	case k.present == nil:
		f.unknown("a lookup: for %s an order that was created was answered as one that does not exist: %s", lookupPatience, l.shown(k.absent))
		return
	}
	f.show("an order that was created is found by a lookup within %s: %s", k.lag.Round(time.Millisecond), l.shown(k.present))
	f.show("one that does not exist is answered %s", l.shown(k.absent))
	exists := rule{name: "the order exists", verdict: order.FoundExists.String(), from: []*seen{k.present}}
	for _, m := range members(k.present.answer()) {
		if m.str == k.present.no && !m.list {
			exists.when = "status == " + strconv.Itoa(k.present.answer().Status) + " && " + m.path + " == order_no"
			break
		}
	}
	if exists.when == "" && !exists.choose(k.absent) {
		f.unknown("a lookup: the answers about an order that exists and one that does not are not told from each other")
		return
	}
	f.lookup = &foundLookup{request: l.LookupRequest, first: max(2*k.lag.Round(time.Second), 5*time.Second), exists: exists}
	absent := rule{name: "the order does not exist", verdict: order.FoundAbsent.String(), from: []*seen{k.absent}}
	if k.absent.x.Phase == http1.PhaseDone && absent.choose(k.present) {
		f.lookup.absent, f.lookup.window = &absent, l.window
		f.lookup.absentFor = 2*l.window + l.API.RequestTimeout + time.Minute
	}
	f.unknown("whether an order that a lookup does not find can still come to be: the rule for that is a comment in the rules file")
}

// foundLookup is a section lookup. A nil absent is none.
type foundLookup struct {
	request                  string
	first, window, absentFor time.Duration
	exists                   rule
	absent                   *rule
}

// yaml writes the section. What would end a doubt by an absence is a comment: no answer shows that it may.
func (k *foundLookup) yaml(shown func(*seen) string) string {
	text := "lookup:\n  request: " + quote(k.request) + "\n  first: " + k.first.String() + "\n" +
		"  # An order that the API lists as declined fulfils the first rule, too: add what tells it apart, with the verdict rejected.\n" +
		"  rules:\n" + k.exists.yaml("    ", shown)
	if k.absent != nil {
		text += "  # An absent order may be posted again, or ends as exhausted. Remove these # if the API refuses every timestamp that is further than\n" +
			"  # timestamp_window from its clock, so that a request which is still on its way cannot create it later:\n" +
			k.absent.yaml("#    ", shown) +
			fmt.Sprintf("#  absent_for: %s\n#  timestamp_window: %s\n", k.absentFor, k.window)
	}
	return text
}
