package certify

import (
	"fmt"
	"strings"

	"orderpost/internal/order"
)

// Findings are what the answers showed.
type Findings struct {
	// Orders are all numbers that were sent. Some of the orders exist at the API now.
	Orders []string
	Rules  []rule
	// Answers are all that were read, but for those of a burst that succeeded.
	Answers []*seen
	// Shown and Unknown are sentences for people.
	Shown, Unknown []string

	policy   order.Policy
	settings []string
	lookup   *foundLookup // nil = none
	success  bool
	shown    func(*seen) string
}

func (f *Findings) show(format string, args ...any) {
	f.Shown = append(f.Shown, fmt.Sprintf(format, args...))
}

func (f *Findings) unknown(format string, args ...any) {
	f.Unknown = append(f.Unknown, fmt.Sprintf(format, args...))
}

func (f *Findings) set(name, value, why string, args ...any) {
	f.settings = append(f.settings, fmt.Sprintf("# "+why+"\nORDERPOST_%s=%s\n", append(args, name, value)...))
}

// Usable reports whether a worker with these findings knows an order that succeeds.
func (f *Findings) Usable() bool { return f.success }

// Policy says what becomes of orders in doubt.
func (f *Findings) Policy() string { return "ORDERPOST_ON_UNSURE=" + f.policy.String() }

// RulesFile is the rules file; "" if a worker needs none.
func (f *Findings) RulesFile() string {
	if len(f.Rules) == 0 && f.lookup == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("# By orderpost certify. Each rule stands below the answer that it was made from. Where an answer proves that nothing exists\n" +
		"# under the order_no, add `final: true` beside rejected or retry: no answer shows that by itself.\n")
	if len(f.Rules) > 0 {
		b.WriteString("rules:\n")
	}
	for i := range f.Rules {
		b.WriteString(f.Rules[i].yaml("  ", f.shown) + "\n")
	}
	if f.lookup != nil {
		b.WriteString(f.lookup.yaml(f.shown))
	}
	return b.String()
}

// Settings are the worker's settings, as an environment file. rules is the path of the rules file.
func (f *Findings) Settings(rules string) string {
	why := "an order_no was not seen to be refused or recognised when it was repeated: what is in doubt waits for a person"
	if f.policy == order.Resubmit {
		why = "a repeated order_no is refused or recognised"
	}
	text := fmt.Sprintf("# %s\nORDERPOST_ON_UNSURE=%s\n", why, f.policy)
	if f.RulesFile() != "" {
		text += "ORDERPOST_RULES=" + rules + "\n"
	}
	return text + strings.Join(f.settings, "")
}

// Report is for people.
func (f *Findings) Report() string {
	var b strings.Builder
	list := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "%s\n", title)
		}
		for _, line := range lines {
			fmt.Fprintf(&b, "  - %s\n", line)
		}
	}
	list("Shown:", f.Shown)
	list("Not shown:", f.Unknown)
	var answers []string
	for _, s := range f.Answers {
		answers = append(answers, fmt.Sprintf("%s (%s): %s", s.what, s.no, f.shown(s)))
	}
	list("The answers:", answers)
	fmt.Fprintf(&b, "Sent orders, of which some exist at the API now:\n  %s\n", strings.Join(f.Orders, " "))
	return b.String()
}
