package answer

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"

	"orderpost/internal/order"
)

const (
	// ruleTime bounds the evaluation of all rules for one answer. Common rules
	// take microseconds.
	ruleTime = time.Second
	// ruleSteps bounds the elements that any(), filter() and similar functions
	// visit for one answer.
	ruleSteps = 5_000_000
	// maxRules and maxRulesFile bound a rules file, in rules and in bytes.
	maxRules     = 1000
	maxRulesFile = 1 << 20
)

var errRuleBudget = errors.New("takes too long")

// ruleBudget stops an evaluation that takes too long. Expr cannot bound the time,
// so every predicate counts a step first.
type ruleBudget struct {
	steps int
	until time.Time
	over  bool
}

func newRuleBudget() *ruleBudget { return &ruleBudget{until: time.Now().Add(ruleTime)} }

// step runs before each predicate. Expr turns its panic into the error of the
// evaluation.
func (b *ruleBudget) step() bool {
	b.steps++
	if b.over || b.steps > ruleSteps || b.steps%16 == 0 && time.Now().After(b.until) {
		b.over = true
		panic(errRuleBudget)
	}
	return true
}

// run evaluates a program made by runnable. A condition that cannot be evaluated
// is false. run returns an error only if it stopped the evaluation.
func (b *ruleBudget) run(program *vm.Program, env ruleEnv) (bool, error) {
	if env.Step == nil {
		env.Step = b.step
	}
	out, err := expr.Run(program, env)
	if b.over || err != nil && strings.Contains(err.Error(), "memory budget exceeded") {
		return false, errRuleBudget
	}
	yes, ok := out.(bool)
	return err == nil && ok && yes, nil
}

// runnable compiles an expression that counts its steps.
func runnable(text string) (*vm.Program, error) { return compileExpr(text, expr.Patch(stepCounter{})) }

// stepCounter puts a call of step before the body of each predicate.
type stepCounter struct{}

// Visit implements ast.Visitor.
func (stepCounter) Visit(node *ast.Node) {
	p, ok := (*node).(*ast.PredicateNode)
	if !ok {
		return
	}
	if s, ok := p.Node.(*ast.SequenceNode); ok && len(s.Nodes) > 0 && isStep(s.Nodes[0]) {
		return // already patched
	}
	p.Node = &ast.SequenceNode{Nodes: []ast.Node{&ast.CallNode{Callee: &ast.IdentifierNode{Value: stepName}}, p.Node}}
}

// stepName cannot collide with a name in a rule.
const stepName = "__step"

func isStep(n ast.Node) bool {
	call, ok := n.(*ast.CallNode)
	if !ok {
		return false
	}
	id, ok := call.Callee.(*ast.IdentifierNode)
	return ok && id.Value == stepName
}

// stopped returns the judgement of an answer for which the rule took too long.
func (r *rule) stopped(a *Answer) Judgement {
	what := fmt.Sprintf("rule %d (line %d, %q) was stopped: it took more than %s, or looked at too many elements, for an answer of %d bytes",
		r.number, r.line, Bounded(r.When, 100), ruleTime, len(a.Body))
	return Judgement{Verdict: order.Unsure, Reason: fmt.Sprintf("rule %d takes too long", r.number), Detail: what, Rule: r.number,
		Hold: "an answer was not understood: " + what + ". Make the rule in the ORDERPOST_RULES file simpler. " + a.beginning()}
}
