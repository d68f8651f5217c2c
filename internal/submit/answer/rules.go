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
	found   order.Found // of a lookup rule, in place of verdict
	wait    time.Duration
	number  int    // 1-based
	called  string // in messages, such as "rule 1"
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
	list   []rule
	look   *Lookup                          // nil = the API is not asked
	keep   []keptMember                     // of answers that say that an order exists
	reload func() (changed bool, err error) // nil = there is no file to read again
	newer  atomic.Pointer[Rules]            // what reload read last
}

// Times are settings that bound the times in a rules file.
type Times struct {
	Request time.Duration // how long a request may take whose answer the rules judge: lookups begin later
	Longest time.Duration // the longest delay of an order that is kept (R9): no rule waits longer
}

// LoadRules reads, type-checks and compiles a rules file. Its error joins all mistakes, each as a [*RulesError].
func LoadRules(file string, times Times) (*Rules, error) {
	r := &Rules{}
	read := func(text []byte) error {
		newer, err := parseFor(times, file, text)
		if err == nil {
			r.newer.Store(newer)
		}
		return err
	}
	live, err := livefile.Open("ORDERPOST_RULES", file, read)
	r.reload = func() (bool, error) {
		return live.Reload(func(text []byte) error {
			if err := read(text); err != nil {
				return fmt.Errorf("ORDERPOST_RULES: %w", err)
			}
			return nil
		})
	}
	return r, err
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
			errs = append(errs, &RulesError{file, rule.line, fmt.Sprintf("%s: `wait` %s is above ORDERPOST_RETRY_DELAY_MAX, %s, and no delay lasts longer: set that to %s or more", rule.called, rule.wait, times.Longest, rule.wait)})
		}
	}
	return r, errors.Join(errs...)
}

// ParseRules is LoadRules for the content of a file. Errors name file.
func ParseRules(file string, data []byte) (*Rules, error) {
	p := parser{file: file}
	r := p.document(data)
	return r, errors.Join(p.mistakes...)
}

// AllowsOtherOrderNo reports whether any rule has other_order_no.
func (r *Rules) AllowsOtherOrderNo() bool {
	return slices.ContainsFunc(r.now().list, func(one rule) bool { return one.OtherOrderNo })
}

// Lookup returns how the API is asked about orders in doubt; nil = it is not.
func (r *Rules) Lookup() *Lookup { return r.now().look }

// parser reads a rules file, and collects its mistakes.
type parser struct {
	file     string
	mistakes []error
}

func (p *parser) wrong(line int, format string, args ...any) {
	p.mistakes = append(p.mistakes, &RulesError{p.file, line, fmt.Sprintf(format, args...)})
}

// document reads the top-level list `rules:` and the sections `lookup:` and `keep:`, of which a file may leave out some.
func (p *parser) document(data []byte) *Rules {
	if len(data) > maxRulesFile {
		p.wrong(0, "the file is longer than %d bytes; every answer is checked against every rule, so write fewer and wider rules", maxRulesFile)
		return nil
	}
	var top struct {
		Rules  yamlast.Node `yaml:"rules"`
		Lookup yamlast.Node `yaml:"lookup"`
		Keep   yamlast.Node `yaml:"keep"`
	}
	doc, err := textfile.Document(data)
	if doc != nil {
		err = textfile.UnmarshalNode(doc, &top)
	}
	if err != nil {
		p.wrongYAML(nodeLine(doc), err)
		return nil
	}
	var nodes []yamlast.Node
	if list, ok := top.Rules.(*yamlast.SequenceNode); ok {
		nodes = list.Values
	}
	switch {
	case len(nodes) == 0 && (top.Rules != nil || top.Lookup == nil && top.Keep == nil):
		p.wrong(nodeLine(doc), "holds no rules: write `rules:` and a list below it")
		return nil
	case len(nodes) > maxRules:
		p.wrong(nodeLine(nodes[maxRules]), "the file has %d rules, the limit is %d; every answer is checked against every rule, so write fewer and wider rules, such as body.code in [1, 2, 3]", len(nodes), maxRules)
		return nil
	}
	return &Rules{look: p.lookup(top.Lookup), keep: p.keep(top.Keep), list: p.rules(nodes, "rule", (*rule).checkVerdict)}
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

// wrongYAML notes a YAML error with its line and message, without the excerpt of the source.
func (p *parser) wrongYAML(line int, err error) {
	what := err.Error()
	var y yaml.Error
	if at, ok := errors.AsType[*textfile.PlaceError](err); ok {
		line, what = at.Line, at.What
	} else if errors.As(err, &y) {
		what = y.GetMessage()
		if t := y.GetToken(); t != nil && t.Position != nil {
			line = t.Position.Line
		}
	}
	p.wrong(line, "%s", what)
}

// rules reads a list of rules, without those that have a mistake. kind is what messages call a rule. check checks the fields
// that not every kind of rule has; it returns a mistake with its field, or "".
func (p *parser) rules(nodes []yamlast.Node, kind string, check func(*rule) (field, mistake string)) (list []rule) {
	for i, node := range nodes {
		one := rule{number: i + 1, called: fmt.Sprintf("%s %d", kind, i+1)}
		if err := textfile.UnmarshalNode(node, &one.ruleText); err != nil {
			p.wrongYAML(nodeLine(node), err)
			continue
		}
		one.line = fieldLine(node, "when")
		one.at = fmt.Sprintf("%s (%s:%d)", one.called, filepath.Base(p.file), one.line)
		field, mistake := "when", "`when` is missing: the expression that the answer must fulfil"
		if strings.TrimSpace(one.When) != "" {
			field, mistake = check(&one)
		}
		if mistake == "" {
			var err error
			if one.condition, err = parseCondition(one.When); err != nil {
				field, mistake = "when", exprMessage(err)
			}
		}
		switch by := one.coveredBy(list); {
		case mistake != "":
			p.wrong(fieldLine(node, field), "%s: %s", one.called, mistake)
			continue
		case len(one.alternatives) == 0:
			p.wrong(one.line, "%s can never match: no status from 100 to 599 fulfils it", one.called)
			continue
		case by != "":
			p.wrong(one.line, "%s can never be reached: %s", one.called, by)
		}
		list = append(list, one)
	}
	return list
}

// checkVerdict checks what a rule says of orders that are posted.
func (r *rule) checkVerdict() (field, mistake string) {
	if err := r.verdict.UnmarshalText([]byte(r.Verdict)); err != nil || r.verdict == order.VerdictNone {
		return "verdict", fmt.Sprintf("unknown verdict %q: expected one of %s", r.Verdict, verdictList())
	}
	if r.Wait != "" {
		var err error
		if r.wait, err = duration.Parse(r.Wait); err != nil {
			return "wait", "`wait`: " + err.Error()
		}
	}
	switch v := r.verdict; {
	case r.Final && v != order.Rejected && v != order.Retry:
		return "final", fmt.Sprintf("`final` says that nothing was created, which verdict %s does not: use it with rejected or retry", v)
	case r.wait > 0 && v != order.Retry && v != order.Unsure:
		return "wait", fmt.Sprintf("`wait` has no meaning with verdict %s: use it with retry or unsure", v)
	case r.Throttle && v != order.Retry:
		return "throttle", fmt.Sprintf("`throttle` has no meaning with verdict %s: use it with retry", v)
	case r.TimeError && r.Final:
		return "final", "`final` says that nothing exists under the order_no, which a refused timestamp does not show: leave it out beside `time_error`"
	case r.TimeError && v != order.Rejected && v != order.Retry && v != order.Denied:
		return "time_error", fmt.Sprintf("`time_error` says that the order was refused for its timestamp, which verdict %s does not: use it with rejected, retry or denied", v)
	}
	return "", ""
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
	if r == nil || r.reload == nil {
		return false, nil
	}
	return r.reload()
}

// now returns the rules that were read last.
func (r *Rules) now() *Rules {
	if r == nil {
		return &noRules
	}
	if newer := r.newer.Load(); newer != nil {
		return newer
	}
	return r
}

var noRules Rules

// Len returns the number of rules.
func (r *Rules) Len() int { return len(r.now().list) }

// ReadHeaders reports whether a rule that may match this status reads headers.
func (r *Rules) ReadHeaders(status int) bool {
	return slices.ContainsFunc(r.now().list, func(one rule) bool { return one.headers && one.mayMatch(status) })
}
