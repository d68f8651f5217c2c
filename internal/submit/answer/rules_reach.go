package answer

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
)

const (
	minStatus, maxStatus = 100, 599
	// maxTerms bounds the disjunctive form of a rule; a rule beyond it is
	// taken to be reachable.
	maxTerms = 64
)

// statusSet holds, for each status from 100 to 599, whether it fulfils.
type statusSet [maxStatus - minStatus + 1]bool

func allStatuses() statusSet {
	var s statusSet
	for i := range s {
		s[i] = true
	}
	return s
}

// reach is an expression split at `and` and `or` into terms, one of which must
// hold. It is how unreachable rules are found, and which rules a cut answer
// cannot be asked about. It is how rules are evaluated, too: a condition that
// cannot be evaluated (body.code of a text) fails its own term only.
type reach struct {
	terms []term
	body  bool // some condition reads the body
	wide  bool // nothing can be said: one term, any status
}

// term holds if the status is in the set and every condition is true.
type term struct {
	statuses   statusSet
	conditions map[string]bool // by canonical text
	program    *vm.Program
}

// reachOf analyses an expression, which has been compiled.
func reachOf(whole *vm.Program, text string) (reach, error) {
	root := whole.Node()
	names := identifiers(root)
	r := reach{body: names["body"] || names["text"]}
	alternatives := disjuncts(root)
	for _, atoms := range alternatives {
		t, err := termOf(atoms)
		if err != nil || len(alternatives) > maxTerms {
			// Evaluated whole, and asked for every status.
			program, err := runnable(text)
			r.terms, r.wide = []term{{statuses: allStatuses(), program: program}}, true
			return r, err
		}
		if t.statuses != (statusSet{}) {
			r.terms = append(r.terms, t)
		}
	}
	return r, nil
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

// holds evaluates the expression for an answer. The error is that it was stopped.
func (r reach) holds(env ruleEnv, budget *ruleBudget) (bool, error) {
	for i := range r.terms {
		if yes, err := budget.run(r.terms[i].program, env); yes || err != nil {
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

// never says that no status fulfils the expression.
func (r reach) never() bool { return !r.wide && len(r.terms) == 0 }

// status says whether an answer of this status might fulfil the expression.
func (r reach) status(s int) bool {
	if r.wide || s < minStatus || s > maxStatus {
		return true
	}
	return slices.ContainsFunc(r.terms, func(t term) bool { return t.statuses[s-minStatus] })
}

// coveredBy says which earlier rules take every answer that this one could
// match; "" if some answer may be left.
func (r reach) coveredBy(earlier []rule) string {
	if r.wide {
		return ""
	}
	var takers []int
	for _, t := range r.terms {
		rest := t.statuses
		for i := range earlier {
			if earlier[i].reach.take(&rest, t.conditions) && !slices.Contains(takers, earlier[i].number) {
				takers = append(takers, earlier[i].number)
			}
		}
		if rest != (statusSet{}) {
			return ""
		}
	}
	slices.Sort(takers)
	if len(takers) == 1 {
		return fmt.Sprintf("rule %d matches everything that it could", takers[0])
	}
	return fmt.Sprintf("rules %v match everything that it could", takers)
}

// take removes from rest the statuses that r matches under the conditions.
func (r reach) take(rest *statusSet, conditions map[string]bool) bool {
	took := false
	for _, t := range r.terms {
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

// implied says whether all conditions are among the given ones.
func implied(conditions, given map[string]bool) bool {
	for c := range conditions {
		if !given[c] {
			return false
		}
	}
	return true
}

// disjuncts splits an expression into alternatives, each a list of conditions
// that must all hold. It stops early beyond maxTerms.
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

// statusesOf evaluates a condition that depends on nothing but the status.
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
		if set[i], err = budget.run(program, ruleEnv{Status: minStatus + i, Step: budget.step}); err != nil {
			return set, false // asked for each answer, then
		}
	}
	return set, true
}

// identifiers are the names of the environment that an expression reads.
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
