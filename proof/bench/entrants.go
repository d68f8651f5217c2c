package bench

import (
	"fmt"
	"slices"
	"strings"
)

// The contenders, by the names that stand in the tables.
const (
	usualStored = "usual worker, outcomes stored"
	leanStored  = "lean worker, outcomes stored"
	ours        = "orderpost worker"
)

// entrants are the contenders by the words of --contenders, in the order in
// which a round runs them.
var entrants = []struct{ word, name string }{{"usual-stored", usualStored}, {"ours", ours}, {"lean-stored", leanStored}}

func entrantWords() (words []string) {
	for _, e := range entrants {
		words = append(words, e.word)
	}
	return words
}

// entered are those of the names that --contenders lets in.
func (o *options) entered(names ...string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(entrants, func(e struct{ word, name string }) bool {
			return e.name == name && slices.Contains(o.contenders, e.word)
		})
	})
}

// stores says whether a contender publishes outcomes to the bench's stream.
func stores(name string) bool { return name != ours }

// promises say what each contender keeps to whatever happens.
var promises = []struct {
	text string
	who  []string
}{
	{"a fresh timestamp and signature for each POST", []string{usualStored, leanStored, ours}},
	{"an order comes again until the API has answered, also after a crash", []string{usualStored, leanStored, ours}},
	{"the outcome is stored and confirmed before the order is acknowledged", []string{usualStored, leanStored, ours}},
	{"one outcome for each order_no, also after redeliveries", []string{ours}},
	{"no POST of an order whose outcome is stored: looked up before each", []string{ours}},
	{"no blind POST after a crash in the middle of one: the doubt is noted before and decided by policy", []string{ours}},
	{"what is not known stays `unknown`, for a person, with the evidence of what was sent", []string{ours}},
	{"a worker that holds an order too long loses it before another one posts it (lease)", []string{ours}},
	{"what cannot be delivered becomes a dead letter that can be replayed", []string{ours}},
	{"retries by kind of failure, breaker, one rate limit of the fleet, hold and resume", []string{ours}},
	{"metrics, traces and an audit of the books", []string{ours}},
}

// promised is the table of the promises of those that took part.
func promised(tables []table) (t table, any bool) {
	names := slices.DeleteFunc([]string{ours, usualStored, leanStored}, func(name string) bool {
		return !slices.ContainsFunc(tables, func(t table) bool {
			return slices.ContainsFunc(t.Outcomes, func(n named) bool { return n.Name == name })
		})
	})
	t = table{Title: "What each contender promises", Columns: append([]string{"promise"}, names...)}
	for _, p := range promises {
		cells := []string{p.text}
		for _, name := range names {
			cells = append(cells, map[bool]string{true: "yes", false: "–"}[slices.Contains(p.who, name)])
		}
		t.row(cells...)
	}
	return t, len(names) > 0
}

func (o *options) validateContenders() (errs []error) {
	for _, word := range o.contenders {
		if !slices.Contains(entrantWords(), word) {
			errs = append(errs, fmt.Errorf("--contenders: %q is none of %s", word, strings.Join(entrantWords(), ", ")))
		}
	}
	return errs
}
