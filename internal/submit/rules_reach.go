package submit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
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

// reach is what can be said about an expression without an answer: it is split
// at `and` and `or` into terms, each a set of statuses and a set of further
// conditions. It is how unreachable rules are found, and which rules a cut
// answer cannot be asked about.
type reach struct {
	terms []term
	body  bool // some condition reads the body
	wide  bool // too many terms to say anything
}

// term holds if the status is in the set and every condition is true.
type term struct {
	statuses   statusSet
	conditions map[string]bool // by canonical text
}

// reachOf analyses a checked expression.
func reachOf(root ast.Node) reach {
	names := identifiers(root)
	r := reach{body: names["body"] || names["text"]}
	terms := disjuncts(root)
	if len(terms) > maxTerms {
		r.wide = true
		return r
	}
	for _, atoms := range terms {
		t := term{statuses: allStatuses(), conditions: map[string]bool{}}
		for _, atom := range atoms {
			if set, ok := statusesOf(atom); ok {
				t.restrict(set)
			} else {
				t.conditions[atom.String()] = true
			}
		}
		if t.statuses != (statusSet{}) {
			r.terms = append(r.terms, t)
		}
	}
	return r
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
		implied := true
		for c := range t.conditions {
			implied = implied && conditions[c]
		}
		for i := range rest {
			if implied && rest[i] && t.statuses[i] {
				rest[i], took = false, true
			}
		}
	}
	return took
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
	program, err := compileExpr(n.String())
	if err != nil {
		return set, false
	}
	for i := range set {
		out, err := expr.Run(program, ruleEnv{Status: minStatus + i})
		yes, ok := out.(bool)
		set[i] = err == nil && ok && yes
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
