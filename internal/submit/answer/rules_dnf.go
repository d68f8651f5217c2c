package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
)

const (
	minStatus, maxStatus = 100, 599
	// maxTerms bounds the terms of a rule. A rule with more counts as reachable.
	maxTerms = 64
)

// statusSet is a set of statuses from 100 to 599.
type statusSet [maxStatus - minStatus + 1]bool

func allStatuses() statusSet {
	var s statusSet
	for i := range s {
		s[i] = true
	}
	return s
}

// dnf is an expression in disjunctive normal form: terms joined by `or`, each a
// list of conditions joined by `and`. It serves three purposes. It shows which
// rules can never match. It shows which rules need the body. And a condition that
// cannot be evaluated, such as body.code of a text, fails only its own term.
type dnf struct {
	terms  []term
	body   bool // some condition reads the body
	json   bool // some condition reads the body's members
	opaque bool // the expression could not be split: one term, any status
}

// term is true if the status is in the set and all conditions are true.
type term struct {
	statuses   statusSet
	conditions map[string]bool // canonical text of each condition
	program    *vm.Program
}

// toDNF splits a compiled expression with this source text.
func toDNF(whole *vm.Program, text string) (dnf, error) {
	root := whole.Node()
	names := identifiers(root)
	d := dnf{json: names["body"] || names["$env"]}
	d.body = d.json || names["text"]
	alternatives := disjuncts(root)
	for _, atoms := range alternatives {
		t, err := termOf(atoms)
		if err != nil || len(alternatives) > maxTerms {
			// Evaluate the expression as a whole, for every status.
			program, err := runnable(text)
			d.terms, d.opaque = []term{{statuses: allStatuses(), program: program}}, true
			return d, err
		}
		if t.statuses != (statusSet{}) {
			d.terms = append(d.terms, t)
		}
	}
	return d, nil
}

func termOf(atoms []ast.Node) (term, error) {
	t := term{statuses: allStatuses(), conditions: map[string]bool{}}
	var texts []string
	for _, atom := range atoms {
		text := atom.String()
		if again, err := compileExpr(text); err != nil || again.Node().String() != text {
			return t, fmt.Errorf("condition %q does not survive being printed", text)
		}
		texts = append(texts, "("+text+")")
		if set, ok := statusesOf(atom); ok {
			t.restrict(set)
		} else {
			t.conditions[text] = true
		}
	}
	var err error
	t.program, err = runnable(strings.Join(texts, " and "))
	return t, err
}

// holds evaluates the expression. It returns an error only if the budget stopped
// the evaluation.
func (d dnf) holds(env ruleEnv, budget *ruleBudget) (bool, error) {
	for i := range d.terms {
		if yes, err := budget.run(d.terms[i].program, env); yes || err != nil {
			return yes, err
		}
	}
	return false, nil
}

func (t *term) restrict(set statusSet) {
	for i := range t.statuses {
		t.statuses[i] = t.statuses[i] && set[i]
	}
}

// never reports whether no status can match the expression.
func (d dnf) never() bool { return !d.opaque && len(d.terms) == 0 }

// mayMatch reports whether an answer with this status might match.
func (d dnf) mayMatch(s int) bool {
	if d.opaque || s < minStatus || s > maxStatus {
		return true
	}
	return slices.ContainsFunc(d.terms, func(t term) bool { return t.statuses[s-minStatus] })
}

// coveredBy names the earlier rules that together match every answer that this
// rule could match. It returns "" if this rule may match some answer first.
func (d dnf) coveredBy(earlier []rule) string {
	if d.opaque {
		return ""
	}
	var covering []int
	for _, t := range d.terms {
		rest := t.statuses
		for i := range earlier {
			if earlier[i].dnf.cover(&rest, t.conditions) && !slices.Contains(covering, earlier[i].number) {
				covering = append(covering, earlier[i].number)
			}
		}
		if rest != (statusSet{}) {
			return ""
		}
	}
	slices.Sort(covering)
	if len(covering) == 1 {
		return fmt.Sprintf("rule %d matches everything that it could", covering[0])
	}
	return fmt.Sprintf("rules %v match everything that it could", covering)
}

// cover removes from rest the statuses that the expression matches under the
// given conditions. It reports whether it removed any.
func (d dnf) cover(rest *statusSet, conditions map[string]bool) bool {
	took := false
	for _, t := range d.terms {
		if !implied(t.conditions, conditions) {
			continue
		}
		for i := range rest {
			if rest[i] && t.statuses[i] {
				rest[i], took = false, true
			}
		}
	}
	return took
}

// implied reports whether all conditions are among the given ones.
func implied(conditions, given map[string]bool) bool {
	for c := range conditions {
		if !given[c] {
			return false
		}
	}
	return true
}

// disjuncts splits an expression into alternatives, each a list of conditions
// that must all be true. It stops once it has more than maxTerms.
func disjuncts(n ast.Node) [][]ast.Node {
	b, ok := n.(*ast.BinaryNode)
	if !ok {
		return [][]ast.Node{{n}}
	}
	switch b.Operator {
	case "||", "or":
		return append(disjuncts(b.Left), disjuncts(b.Right)...)
	case "&&", "and":
		left, right := disjuncts(b.Left), disjuncts(b.Right)
		var out [][]ast.Node
		for _, l := range left {
			for _, r := range right {
				out = append(out, slices.Concat(l, r))
				if len(out) > maxTerms {
					return out
				}
			}
		}
		return out
	default:
		return [][]ast.Node{{n}}
	}
}

// statusesOf returns the statuses for which a condition is true. It returns false
// if the condition depends on more than the status.
func statusesOf(n ast.Node) (statusSet, bool) {
	var set statusSet
	for name := range maps.Keys(identifiers(n)) {
		if name != "status" {
			return set, false
		}
	}
	program, err := runnable(n.String())
	if err != nil {
		return set, false
	}
	budget := newRuleBudget()
	for i := range set {
		set[i], err = budget.run(program, ruleEnv{Status: minStatus + i, Step: budget.step})
		if err != nil || time.Now().After(budget.until) { // a range is built without a step
			return set, false // evaluate it for each answer instead
		}
	}
	return set, true
}

// identifiers returns the names of the variables that an expression reads.
func identifiers(n ast.Node) map[string]bool {
	c := identifierCollector{}
	ast.Walk(&n, c)
	return c
}

type identifierCollector map[string]bool

// Visit implements ast.Visitor.
func (c identifierCollector) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok {
		c[id.Value] = true
	}
}
