package answer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
)

const minStatus, maxStatus = 100, 599

// statusSet is a set of statuses from 100 to 599.
type statusSet [maxStatus - minStatus + 1]bool

// condition is the `when` of a rule: alternatives joined by `or`, each a list of tests
// joined by `and`. The alternatives are evaluated one by one. So a test that cannot be
// evaluated, such as body.code of a text, fails only its own alternative.
type condition struct {
	alternatives []alternative
	body         bool // some test reads the body
	json         bool // some test reads the body's members
	headers      bool // some test reads the headers
}

type alternative struct {
	statuses statusSet              // for which the tests of the status alone are true
	tests    map[string]*comparison // the other tests, by how they print; nil = no comparison
	program  *vm.Program            // all of it
}

// parseCondition type-checks a `when`, splits and compiles it. It refuses what would make
// the cost of a rule grow faster than the answer (affordable).
func parseCondition(text string) (condition, error) {
	whole, err := compileExpr(text)
	if err != nil {
		return condition{}, err
	}
	root := whole.Node()
	if err := affordable(root); err != nil {
		return condition{}, err
	}
	names, _ := reads(root)
	c := condition{json: names["body"], body: names["body"] || names["text"], headers: names["headers"]}
	for _, node := range split(root, "or", "||") {
		a, err := newAlternative(node)
		if err != nil {
			return condition{}, err
		}
		if a.statuses != (statusSet{}) {
			c.alternatives = append(c.alternatives, a)
		}
	}
	return c, nil
}

func newAlternative(node ast.Node) (alternative, error) {
	a := alternative{tests: map[string]*comparison{}}
	for i := range a.statuses {
		a.statuses[i] = true
	}
	for _, test := range split(node, "and", "&&") {
		if onlyStatus(test) {
			if err := a.restrict(test); err != nil {
				return a, err
			}
			continue
		}
		if len(split(test, "or", "||")) > 1 {
			return a, fmt.Errorf("`%s` is an `or` inside an `and`: `or` may only join whole alternatives, each with its own tests, as in "+
				"status == 200 and body.code == 1 or status == 200 and body.code == 2. For several values of one member write body.code in [1, 2]", shown(test))
		}
		a.tests[test.String()] = comparisonOf(test)
	}
	var err error
	a.program, err = compileNode(node)
	return a, err
}

// restrict removes the statuses for which a test of the status alone is false.
func (a *alternative) restrict(test ast.Node) error {
	program, err := compileNode(test)
	for i := range a.statuses {
		if err == nil && a.statuses[i] {
			a.statuses[i], err = evaluate(program, ruleEnv{Status: minStatus + i})
		}
	}
	return err
}

// compileNode compiles a part of an expression.
func compileNode(node ast.Node) (*vm.Program, error) {
	text := node.String()
	program, err := compileExpr(text)
	if err == nil && program.Node().String() != text {
		return nil, fmt.Errorf("`%s` cannot be separated from the rest: write it as a rule of its own", shown(node))
	}
	return program, err
}

// split returns the operands of the operator at the top of an expression.
func split(node ast.Node, operators ...string) []ast.Node {
	if b, ok := node.(*ast.BinaryNode); ok && slices.Contains(operators, b.Operator) {
		return append(split(b.Left, operators...), split(b.Right, operators...)...)
	}
	return []ast.Node{node}
}

// shown returns the beginning of an expression, for messages.
func shown(node ast.Node) string { return Bounded(node.String(), 100) }

var errRuleMemory = errors.New("takes too much memory")

// evaluate runs a program. A test that cannot be evaluated is false. The error is
// errRuleMemory, which leaves open whether the answer matches.
func evaluate(program *vm.Program, env ruleEnv) (bool, error) {
	out, err := expr.Run(program, env)
	if err != nil && strings.Contains(err.Error(), "memory budget exceeded") {
		return false, errRuleMemory
	}
	yes, ok := out.(bool)
	return err == nil && ok && yes, nil
}

// holds reports whether an alternative is true. Error: errRuleMemory.
func (c condition) holds(env ruleEnv) (bool, error) {
	for i := range c.alternatives {
		if yes, err := evaluate(c.alternatives[i].program, env); yes || err != nil {
			return yes, err
		}
	}
	return false, nil
}

// mayMatch reports whether an answer with this status might match.
func (c condition) mayMatch(status int) bool {
	return status < minStatus || status > maxStatus ||
		slices.ContainsFunc(c.alternatives, func(a alternative) bool { return a.statuses[status-minStatus] })
}

// coveredBy names the earlier rules that match whatever this one could: each of its
// alternatives only narrows an earlier one. It returns "" if there is no such rule for
// some alternative.
func (c condition) coveredBy(earlier []rule) string {
	var numbers []string
	for _, a := range c.alternatives {
		i := slices.IndexFunc(earlier, func(r rule) bool { return slices.ContainsFunc(r.alternatives, a.narrows) })
		if i < 0 {
			return ""
		}
		if number := fmt.Sprint(earlier[i].number); !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	return "rule " + strings.Join(numbers, " or ") + " matches everything that it could"
}

// narrows reports whether every answer that a matches matches b, too, because a has all
// tests of b, or tests of the same value that b's follow from (rules_implied.go).
func (a alternative) narrows(b alternative) bool {
	for text, test := range b.tests {
		if _, same := a.tests[text]; !same && !a.implies(test) {
			return false
		}
	}
	for i := range a.statuses {
		if a.statuses[i] && !b.statuses[i] {
			return false
		}
	}
	return true
}

// affordable returns what in an expression could cost more than a pass over the answer: any() within any(),
// a predicate that searches the body for each element, a pattern taken from the answer.
func affordable(root ast.Node) (err error) {
	ast.Find(root, func(node ast.Node) bool {
		if err == nil {
			err = affordableNode(node)
		}
		return false
	})
	return err
}

func affordableNode(node ast.Node) error {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		if n.Value == "$env" {
			return errors.New("`$env`: name the variable itself, as in text or body")
		}
	case *ast.BuiltinNode: // Expr itself can only disable functions without a predicate
		if n.Name == "reduce" {
			return errors.New("`reduce`: what it builds may grow with each element. Use sum, count or join")
		}
	case *ast.BinaryNode:
		if _, constant := n.Right.(*ast.StringNode); n.Operator == "matches" && !constant {
			return fmt.Errorf("`%s`: `matches` needs a pattern in quotes", shown(n))
		}
	case *ast.PredicateNode:
		names, nested := reads(n.Node)
		for _, known := range []string{"status", "attempt", "order_no"} {
			delete(names, known)
		}
		switch {
		case nested:
			return fmt.Errorf("`%s` looks at elements for each element: join the inner lists first, as in any(flatten(map(body.orders, .codes)), # == 2)", shown(n.Node))
		case len(names) > 0:
			return fmt.Errorf("`%s`: what is asked of each element may read the element (#), status, attempt and order_no alone: "+
				"turn it round, as in body.code in map(body.errors, .code)", shown(n.Node))
		}
	}
	return nil
}

// reads returns the names of the variables that an expression reads, and whether it asks
// something of each element of a list.
func reads(node ast.Node) (names map[string]bool, elements bool) {
	names = map[string]bool{}
	ast.Find(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IdentifierNode:
			names[n.Value] = true
		case *ast.PredicateNode:
			elements = true
		}
		return false
	})
	return names, elements
}

// onlyStatus reports whether a test depends on the status at most.
func onlyStatus(test ast.Node) bool {
	names, elements := reads(test)
	delete(names, "status")
	return len(names) == 0 && !elements
}
