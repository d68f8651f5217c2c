package answer

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// comparison is a test that compares a value of the answer, such as body.code, with
// constants: nil, booleans, numbers (as float64) and texts.
type comparison struct {
	value     string // as written
	operator  string
	negated   bool
	constants []any // one, but for "in"
}

// implies reports whether a test follows from what a says of the same value. It is sure
// if it says so. The constants divide the possible values into ranges in which each
// comparison has one result. One value of each range is tried, and one of each other kind.
func (a alternative) implies(then *comparison) bool {
	if then == nil {
		return false
	}
	var given []*comparison
	for _, c := range a.tests {
		if c != nil && c.value == then.value {
			given = append(given, c)
		}
	}
	if len(given) == 0 {
		return false
	}
	var values []any
	if i := slices.IndexFunc(given, (*comparison).lists); i >= 0 {
		values = given[i].constants
	} else if slices.ContainsFunc(append(given, then), (*comparison).looksInto) {
		return false // what a part of a text is, no range tells
	} else {
		values = ranges(append(given, then))
	}
	return !slices.ContainsFunc(values, func(v any) bool {
		return !then.holds(v) && !slices.ContainsFunc(given, func(c *comparison) bool { return !c.holds(v) })
	})
}

// lists reports whether only the constants fulfil the test.
func (c *comparison) lists() bool {
	return !c.negated && (c.operator == "==" || c.operator == "in")
}

// looksInto reports whether the test reads a part of a text.
func (c *comparison) looksInto() bool {
	return strings.HasSuffix(c.operator, "With") || c.operator == "contains"
}

// ranges returns a value of each kind, and of each range between the constants.
func ranges(all []*comparison) []any {
	var numbers []float64
	values := []any{nil, true, false, struct{}{}, math.Inf(-1), math.Inf(1), ""} // struct{}{}: a list or an object
	for _, c := range all {
		for _, v := range c.constants {
			switch v := v.(type) {
			case float64:
				numbers = append(numbers, v)
			case string:
				values = append(values, v, v+"\x00") // the next text in order
			}
		}
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		values = append(values, n, (n+numbers[max(i-1, 0)])/2)
	}
	return values
}

// holds evaluates the test as Expr does. An order of values of two kinds cannot be
// evaluated, and so does not hold even if it is negated.
func (c *comparison) holds(v any) bool {
	text, isText := v.(string)
	constant, toText := c.constants[0].(string)
	yes, order := false, 0
	switch c.operator {
	case "==", "in":
		return slices.Contains(c.constants, v) != c.negated
	case "!=":
		return slices.Contains(c.constants, v) == c.negated
	}
	switch {
	case isText && toText:
		order = cmp.Compare(text, constant)
	case isText || toText || c.looksInto():
		return false
	default:
		n, isNumber := v.(float64)
		to, toNumber := c.constants[0].(float64)
		if !isNumber || !toNumber {
			return false
		}
		order = cmp.Compare(n, to)
	}
	switch c.operator {
	case "<":
		yes = order < 0
	case "<=":
		yes = order <= 0
	case ">":
		yes = order > 0
	case ">=":
		yes = order >= 0
	case "startsWith":
		yes = strings.HasPrefix(text, constant)
	case "endsWith":
		yes = strings.HasSuffix(text, constant)
	case "contains":
		yes = strings.Contains(text, constant)
	}
	return yes != c.negated
}

// turned are the operators whose sides may change places.
var turned = map[string]string{"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// comparisonOf takes a test apart; nil = it is no comparison of one value with constants.
func comparisonOf(test ast.Node) *comparison {
	if u, ok := test.(*ast.UnaryNode); ok && (u.Operator == "not" || u.Operator == "!") {
		c := comparisonOf(u.Node)
		if c != nil {
			c.negated = !c.negated
		}
		return c
	}
	b, ok := test.(*ast.BinaryNode)
	if !ok {
		return nil
	}
	c := &comparison{operator: b.Operator, value: b.Left.String()}
	list, isList := b.Right.(*ast.ArrayNode)
	switch {
	case b.Operator == "in" && isList:
		for _, e := range list.Nodes {
			v, ok := constantOf(e)
			if !ok {
				return nil
			}
			c.constants = append(c.constants, v)
		}
	case turned[b.Operator] != "" || c.looksInto():
		v, ok := constantOf(b.Right)
		if !ok {
			if v, ok = constantOf(b.Left); !ok || c.looksInto() {
				return nil
			}
			c.operator, c.value = turned[b.Operator], b.Right.String()
		}
		c.constants = []any{v}
	}
	if len(c.constants) == 0 {
		return nil
	}
	return c
}

// constantOf returns the value of a literal.
func constantOf(node ast.Node) (v any, ok bool) {
	switch n := node.(type) {
	case *ast.NilNode:
		return nil, true
	case *ast.BoolNode:
		return n.Value, true
	case *ast.IntegerNode:
		return float64(n.Value), true
	case *ast.FloatNode:
		return n.Value, true
	case *ast.StringNode:
		return n.Value, true
	case *ast.UnaryNode:
		if f, _ := constantOf(n.Node); n.Operator == "-" && f != nil {
			number, ok := f.(float64)
			return -number, ok
		}
	}
	return nil, false
}
