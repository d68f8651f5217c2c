package answer

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
	"github.com/goccy/go-yaml"
	yamlast "github.com/goccy/go-yaml/ast"

	"orderpost/internal/order"
	"orderpost/internal/platform/duration"
	"orderpost/internal/platform/livefile"
	"orderpost/internal/platform/textfile"
)

const (
	// ruleTime bounds the evaluation of all rules for one answer. Common rules
	// take microseconds.
	ruleTime = time.Second
	// maxRules and maxRulesFile bound a rules file, in rules and in bytes.
	maxRules     = 1000
	maxRulesFile = 1 << 20
)

// ruleEnv holds the variables of an expression.
type ruleEnv struct {
	// Status is the HTTP status, 100 to 599.
	Status int `expr:"status"`
	// Headers maps lower-case names to values. Repeated headers are joined by ", ".
	Headers map[string]string `expr:"headers"`
	// Body is the parsed JSON body. It is the text if the body is not JSON.
	Body any `expr:"body"`
	// Text is the body as received.
	Text string `expr:"text"`
	// Attempt is the number of the order's attempt, over all submissions, from 1.
	Attempt int `expr:"attempt"`
	// OrderNo is the order number that was sent.
	OrderNo string `expr:"order_no"`
}

// ruleText is one entry of a rules file as written.
type ruleText struct {
	Name    string `yaml:"name"`
	When    string `yaml:"when"`
	Verdict string `yaml:"verdict"`
	// Wait is the shortest time before the next attempt, such as "1m30s".
	Wait string `yaml:"wait"`
	// Reason is recorded with the order. The default is "rule N".
	Reason string `yaml:"reason"`
	// Final says that this answer proves that no order was created.
	Final bool `yaml:"final"`
	// Throttle applies Wait, or the answer's Retry-After, to the whole pool.
	Throttle bool `yaml:"throttle"`
	// TimeError says that the API refused the timestamp. The worker measures the
	// API's clock again and tries once more.
	TimeError bool `yaml:"time_error"`
	// OtherOrderNo says that an order_no in the answer may be another order's.
	OtherOrderNo bool `yaml:"other_order_no"`
}

// rule is a checked and compiled entry of a rules file.
type rule struct {
	ruleText
	verdict order.Verdict
	lookup  bool        // it is one of the section lookup
	found   order.Found // of a lookup rule, in place of verdict
	wait    time.Duration
	number  int    // 1-based
	line    int    // of "when" in the file
	at      string // number, file and line, for people
	condition
}

// RulesError is a mistake in a rules file.
type RulesError struct {
	File string
	Line int // 1-based; 0 = the file as a whole
	Msg  string
}

// Error returns "file:line: message".
func (e *RulesError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Msg
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// Rules is a compiled rules file. The first rule that matches an answer gives
// the verdict. If no rule matches, the built-in verdicts apply. A nil *Rules has
// no rules.
type Rules struct {
	list  []rule
	look  *Lookup               // nil = the API is not asked
	keep  []keptMember          // of answers that say that an order exists
	file  *livefile.File        // nil = none to read again
	name  string                // of the file
	newer atomic.Pointer[Rules] // what Reload read since
	times Times
}

// Times are settings that bound the times in a rules file.
type Times struct {
	Request time.Duration // how long a request may take whose answer the rules judge: lookups begin later
	Longest time.Duration // the longest delay of an order that is kept (R9): no rule waits longer
}

// LoadRules reads, type-checks and compiles a rules file. Its error joins all mistakes, each as a [*RulesError].
func LoadRules(file string, times Times) (*Rules, error) {
	var r *Rules
	live, err := livefile.Open("ORDERPOST_RULES", file, func(text []byte) (err error) {
		r, err = parseFor(times, file, text)
		return err
	})
	if err != nil {
		return nil, err
	}
	r.file, r.name, r.times = live, file, times
	return r, nil
}

// parseFor is ParseRules, and checks the times.
func parseFor(times Times, file string, data []byte) (*Rules, error) {
	r, err := ParseRules(file, data)
	if err != nil {
		return nil, err
	}
	errs := []error{r.look.checkTimes(times.Request)}
	for _, rule := range r.list {
		if rule.wait > times.Longest {
			errs = append(errs, &RulesError{file, rule.line, fmt.Sprintf("rule %d: `wait` %s is above ORDERPOST_RETRY_DELAY_MAX, %s, and no delay lasts longer: set that to %s or more", rule.number, rule.wait, times.Longest, rule.wait)})
		}
	}
	return r, errors.Join(errs...)
}

// ParseRules is LoadRules for the content of a file. Errors name file.
func ParseRules(file string, data []byte) (*Rules, error) {
	if len(data) > maxRulesFile {
		return nil, &RulesError{file, 0, fmt.Sprintf("the file is longer than %d bytes; every answer is checked against every rule, so write fewer and wider rules", maxRulesFile)}
	}
	nodes, lookup, keep, err := ruleNodes(file, data)
	if err != nil {
		return nil, err
	}
	if len(nodes) > maxRules {
		return nil, &RulesError{file, nodeLine(nodes[maxRules]), fmt.Sprintf("the file has %d rules, the limit is %d; every answer is checked against every rule, so write fewer and wider rules, such as body.code in [1, 2, 3]", len(nodes), maxRules)}
	}
	r := &Rules{}
	var errs []error
	if lookup != nil {
		if r.look, err = parseLookup(file, lookup); err != nil {
			errs = append(errs, err)
		}
	}
	if keep != nil {
		if r.keep, err = parseKeep(file, keep); err != nil {
			errs = append(errs, err)
		}
	}
	for i, node := range nodes {
		one := rule{number: i + 1, line: nodeLine(node)}
		if err := one.read(file, node); err != nil {
			errs = append(errs, err)
			continue
		}
		if by := one.coveredBy(r.list); by != "" {
			errs = append(errs, &RulesError{file, one.line, one.called() + " can never be reached: " + by})
		}
		r.list = append(r.list, one)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// AllowsOtherOrderNo reports whether any rule has other_order_no.
func (r *Rules) AllowsOtherOrderNo() bool {
	r = r.now()
	return r != nil && slices.ContainsFunc(r.list, func(one rule) bool { return one.OtherOrderNo })
}

// Lookup returns how the API is asked about orders in doubt; nil = it is not.
func (r *Rules) Lookup() *Lookup {
	if r = r.now(); r == nil {
		return nil
	}
	return r.look
}

// ruleNodes returns the entries of the top-level list `rules:`, and the sections `lookup:` and `keep:`, nil if there is none.
func ruleNodes(file string, data []byte) (rules []yamlast.Node, lookup, keep yamlast.Node, err error) {
	doc, err := textfile.Document(data)
	if err != nil {
		return nil, nil, nil, yamlError(file, 0, err)
	}
	if doc == nil {
		return nil, nil, nil, &RulesError{file, 0, "holds no rules: write `rules:` and a list below it"}
	}
	var top struct {
		Rules  yamlast.Node `yaml:"rules"`
		Lookup yamlast.Node `yaml:"lookup"`
		Keep   yamlast.Node `yaml:"keep"`
	}
	if err := textfile.UnmarshalNode(doc, &top); err != nil {
		return nil, nil, nil, yamlError(file, nodeLine(doc), err)
	}
	list, ok := top.Rules.(*yamlast.SequenceNode)
	if (!ok || len(list.Values) == 0) && (top.Rules != nil || top.Lookup == nil && top.Keep == nil) {
		return nil, nil, nil, &RulesError{file, nodeLine(doc), "holds no rules: write `rules:` and a list below it"}
	}
	if ok {
		rules = list.Values
	}
	return rules, top.Lookup, top.Keep, nil
}

func nodeLine(n yamlast.Node) int {
	if n == nil || n.GetToken() == nil {
		return 0
	}
	if m, ok := n.(*yamlast.MappingNode); ok && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken().Position.Line
	}
	return n.GetToken().Position.Line
}

// fieldLine returns the line of a field, or of its mapping if the field is absent.
func fieldLine(n yamlast.Node, name string) int {
	var values []*yamlast.MappingValueNode
	switch m := n.(type) {
	case *yamlast.MappingNode:
		values = m.Values
	case *yamlast.MappingValueNode:
		values = []*yamlast.MappingValueNode{m}
	}
	for _, v := range values {
		if v.Key.String() == name {
			return v.Key.GetToken().Position.Line
		}
	}
	return nodeLine(n)
}

// yamlError returns a YAML error with its line and message, without the excerpt
// of the source.
func yamlError(file string, line int, err error) error {
	if at, ok := errors.AsType[*textfile.PlaceError](err); ok {
		return &RulesError{file, at.Line, at.What}
	}
	var y yaml.Error
	if errors.As(err, &y) {
		if t := y.GetToken(); t != nil && t.Position != nil {
			line = t.Position.Line
		}
		return &RulesError{file, line, y.GetMessage()}
	}
	return &RulesError{file, line, err.Error()}
}

// called names the rule in messages.
func (r *rule) called() string {
	if r.lookup {
		return fmt.Sprintf("lookup rule %d", r.number)
	}
	return fmt.Sprintf("rule %d", r.number)
}

// readText fills the rule's text from its YAML node. fail makes an error about one of its fields.
func (r *rule) readText(file string, node yamlast.Node) (fail func(field, format string, args ...any) error, err error) {
	fail = func(field, format string, args ...any) error {
		return &RulesError{file, fieldLine(node, field), r.called() + ": " + fmt.Sprintf(format, args...)}
	}
	if err := textfile.UnmarshalNode(node, &r.ruleText); err != nil {
		return nil, yamlError(file, r.line, err)
	}
	r.line = fieldLine(node, "when")
	r.at = fmt.Sprintf("%s (%s:%d)", r.called(), filepath.Base(file), r.line)
	if strings.TrimSpace(r.When) == "" {
		return nil, fail("when", "`when` is missing: the expression that the answer must fulfil")
	}
	return fail, nil
}

// read fills the rule from its YAML node, checks it and compiles it.
func (r *rule) read(file string, node yamlast.Node) error {
	fail, err := r.readText(file, node)
	if err != nil {
		return err
	}
	if err := r.verdict.UnmarshalText([]byte(r.Verdict)); err != nil || r.verdict == order.VerdictNone {
		return fail("verdict", "unknown verdict %q: expected one of %s", r.Verdict, verdictList())
	}
	if r.Wait != "" {
		var err error
		if r.wait, err = duration.Parse(r.Wait); err != nil {
			return fail("wait", "`wait`: %v", err)
		}
	}
	switch v := r.verdict; {
	case r.Final && v != order.Rejected && v != order.Retry:
		return fail("final", "`final` says that nothing was created, which verdict %s does not: use it with rejected or retry", v)
	case r.wait > 0 && v != order.Retry && v != order.Unsure:
		return fail("wait", "`wait` has no meaning with verdict %s: use it with retry or unsure", v)
	case r.Throttle && v != order.Retry:
		return fail("throttle", "`throttle` has no meaning with verdict %s: use it with retry", v)
	case r.TimeError && r.Final:
		return fail("final", "`final` says that nothing exists under the order_no, which a refused timestamp does not show: leave it out beside `time_error`")
	case r.TimeError && v != order.Rejected && v != order.Retry && v != order.Denied:
		return fail("time_error", "`time_error` says that the order was refused for its timestamp, which verdict %s does not: use it with rejected, retry or denied", v)
	}
	return r.compile(file)
}

func (r *rule) compile(file string) (err error) {
	if r.condition, err = parseCondition(r.When); err != nil {
		return &RulesError{file, r.line, r.called() + ": " + exprMessage(err)}
	}
	if len(r.alternatives) == 0 {
		return &RulesError{file, r.line, r.called() + " can never match: no status from 100 to 599 fulfils it"}
	}
	return nil
}

func compileExpr(text string) (*vm.Program, error) {
	return expr.Compile(text, expr.Env(ruleEnv{}), expr.AsBool(), expr.WarnOnAny(), expr.Optimize(false), expr.Patch(lowerHeaders{}),
		// uniq takes quadratic time.
		expr.DisableBuiltin("now"), expr.DisableBuiltin("uniq"))
}

func verdictList() string {
	var words []string
	for _, v := range order.Verdicts() {
		words = append(words, v.String())
	}
	return strings.Join(words, ", ")
}

// exprMessage returns the first line of an expression error, with its column.
// The lines below it draw the source.
func exprMessage(err error) string {
	msg, _, _ := strings.Cut(err.Error(), "\n")
	switch {
	case strings.HasPrefix(msg, "expected bool, but got"):
		msg += ": `when` must say yes or no, so compare the value, as in body.success == true"
	case strings.Contains(msg, "unexpected token EOF"):
		msg += ": the expression ends early (a # in it must stand in quotes, or YAML takes it for a comment)"
	}
	return msg
}

// lowerHeaders makes header names in rules case-insensitive.
type lowerHeaders struct{}

// Visit implements ast.Visitor.
func (lowerHeaders) Visit(node *ast.Node) {
	m, ok := (*node).(*ast.MemberNode)
	if !ok {
		return
	}
	if id, ok := m.Node.(*ast.IdentifierNode); !ok || id.Value != "headers" {
		return
	}
	if s, ok := m.Property.(*ast.StringNode); ok {
		s.Value = strings.ToLower(s.Value)
	}
}

// Reload reads the rules file again, and takes its rules if they changed. With an error,
// the rules stay as they are. One goroutine at a time may call it.
func (r *Rules) Reload() (changed bool, err error) {
	if r == nil || r.file == nil {
		return false, nil
	}
	return r.file.Reload(func(text []byte) error {
		next, err := parseFor(r.times, r.name, text)
		if err != nil {
			return fmt.Errorf("ORDERPOST_RULES: %w", err)
		}
		r.newer.Store(next)
		return nil
	})
}

// now returns the rules that were read last.
func (r *Rules) now() *Rules {
	if r != nil {
		if n := r.newer.Load(); n != nil {
			return n
		}
	}
	return r
}

// Len returns the number of rules.
func (r *Rules) Len() int {
	if r = r.now(); r == nil {
		return 0
	}
	return len(r.list)
}

// ReadHeaders reports whether a rule that may match this status reads headers.
func (r *Rules) ReadHeaders(status int) bool {
	r = r.now()
	return r != nil && slices.ContainsFunc(r.list, func(one rule) bool { return one.headers && one.mayMatch(status) })
}
