package answer

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	yamlast "github.com/goccy/go-yaml/ast"

	"orderpost/internal/order"
	"orderpost/internal/platform/duration"
	"orderpost/internal/platform/textfile"
)

// Lookup says how the API is asked whether it has an order in doubt.
type Lookup struct {
	// First is how long after an attempt the API is asked at the earliest.
	First time.Duration
	// AbsentFor is how far two absent answers are apart at least, so that the order counts as absent.
	AbsentFor time.Duration
	// Window is how far a timestamp may be from the API's clock, either way.
	Window time.Duration
	// Repost says that an absent order is posted again, also under park.
	Repost bool

	path  string // below the API's address
	line  int
	file  string
	rules Rules
}

// lookupText is the section `lookup` of a rules file as written.
type lookupText struct {
	Request   string         `yaml:"request"`
	First     string         `yaml:"first"`
	AbsentFor string         `yaml:"absent_for"`
	Window    string         `yaml:"timestamp_window"`
	Repost    bool           `yaml:"repost"`
	Rules     []yamlast.Node `yaml:"rules"`
}

// lookupNumber stands for the order's number in the path.
const lookupNumber = "{order_no}"

// firstLookup is the default of `first`.
const firstLookup = 5 * time.Second

// lookup checks and compiles the section `lookup:`; nil = there is none.
func (p *parser) lookup(node yamlast.Node) *Lookup {
	if node == nil {
		return nil
	}
	l := &Lookup{file: p.file, line: nodeLine(node), First: firstLookup}
	wrong := func(field, format string, args ...any) {
		p.wrong(fieldLine(node, field), "lookup: "+format, args...)
	}
	var text lookupText
	if err := textfile.UnmarshalNode(node, &text); err != nil {
		p.wrongYAML(l.line, err)
		return nil
	}
	method, path, _ := strings.Cut(strings.TrimSpace(text.Request), " ")
	switch l.path = strings.TrimSpace(path); {
	case method != "GET" || !strings.HasPrefix(l.path, "/"):
		wrong("request", "`request` must be GET and a path below the API's address, as in GET /v1/order/%s, and is %q", lookupNumber, text.Request)
	case strings.Count(l.path, lookupNumber) != 1 || strings.ContainsAny(l.path, " #"):
		wrong("request", "the path %q must hold %s once, and neither a space nor #", l.path, lookupNumber)
	}
	for _, t := range []struct {
		name, text string
		to         *time.Duration
	}{{"first", text.First, &l.First}, {"absent_for", text.AbsentFor, &l.AbsentFor}, {"timestamp_window", text.Window, &l.Window}} {
		if t.text == "" {
			continue
		}
		d, err := duration.Parse(t.text)
		switch {
		case err != nil:
			wrong(t.name, "`%s`: %v", t.name, err)
		case d <= 0:
			wrong(t.name, "`%s` must be longer than 0", t.name)
		default:
			*t.to = d
		}
	}
	if len(text.Rules) == 0 {
		wrong("rules", "holds no rules: write `rules:` and a list below it, each with `when` and a verdict, %s", foundList())
	}
	l.rules.list = p.rules(text.Rules, "lookup rule", (*rule).checkFound)
	absent := func(r rule) bool { return r.found == order.FoundAbsent }
	if (l.AbsentFor == 0 || l.Window == 0) && slices.ContainsFunc(l.rules.list, absent) {
		wrong("absent_for", "a rule says absent: write `absent_for` and `timestamp_window`, how far a timestamp may be from the API's clock, too")
	}
	return l
}

// checkFound checks what a rule says of an order that is looked up.
func (r *rule) checkFound() (field, mistake string) {
	if err := r.found.UnmarshalText([]byte(r.Verdict)); err != nil || r.found == order.FoundNothing {
		return "verdict", fmt.Sprintf("unknown verdict %q: expected one of %s", r.Verdict, foundList())
	}
	if r.Wait != "" || r.Final || r.Throttle || r.TimeError || r.OtherOrderNo {
		return "when", "a lookup rule has name, when, verdict and reason alone"
	}
	r.Reason = cmp.Or(r.Reason, r.called+": "+r.found.String())
	return "", ""
}

func foundList() string { return strings.Join(order.FoundWords(), ", ") }

// checkTimes returns why an absence would be believed too early: a request that is still on its way
// may create the order until the API refuses its timestamp, which may be ahead of the API's clock.
func (l *Lookup) checkTimes(requestTimeout time.Duration) error {
	if l == nil || l.AbsentFor == 0 {
		return nil
	}
	if least := 2*l.Window + requestTimeout; l.AbsentFor <= least {
		return &RulesError{l.file, l.line, fmt.Sprintf("lookup: absent_for is %s, and must be longer than %s, which is twice timestamp_window (%s) and ORDERPOST_REQUEST_TIMEOUT (%s): until then a request that is still on its way may create the order",
			l.AbsentFor, least, l.Window, requestTimeout)}
	}
	return nil
}

// Path returns the path below the API's address that asks for an order. It is false for an order_no
// that no path can name.
func (l *Lookup) Path(orderNo string) (string, bool) {
	if orderNo == "" || orderNo == "." || orderNo == ".." {
		return "", false
	}
	return strings.Replace(l.path, lookupNumber, url.PathEscape(orderNo), 1), true
}

// Judge returns what an answer to a lookup says, and the reason for records. An answer that was cut short,
// that may be another request's, or that names another order says nothing.
func (l *Lookup) Judge(a *Answer) (order.Found, string) {
	a.Examine("")
	if a.Status == 0 || a.Stray || !a.Complete || a.AboutAnother(true) {
		return order.FoundNothing, ""
	}
	began := time.Now()
	j := l.rules.Judge(a, 1)
	if j.Rule == 0 || j.Hold != "" || time.Since(began) > ruleTime { // none holds, or one was stopped
		return order.FoundNothing, ""
	}
	return l.rules.list[j.Rule-1].found, j.Reason
}
