package answer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// holdReason returns the reason of a hold that a new rule would end. It says what
// is wrong with the answer, shows the answer, and proposes a rule. The proposed
// verdict is unsure, because somebody may copy the rule without thinking. reason is
// the order's until then, rule the condition, and more further lines of the rule.
func (a *Answer) holdReason(reason, what, rule, more string) string {
	kind, likely := "", ""
	if t := a.Header.Get("Content-Type"); t != "" {
		kind = " (" + a.Excerpt([]byte(t), 64) + ")"
	}
	switch f := &a.findings; {
	case f.mentions && !f.denied:
		likely = "its words suggest duplicate; "
	case f.denied || f.contradiction != "":
		likely = "its words suggest rejected; "
	}
	return fmt.Sprintf("an answer with status %d%s settles nothing: %s. %sWrite a rule for it into the ORDERPOST_RULES file, such as\n"+
		"  - name: %s\n    when: %s\n    verdict: unsure   # %sput here what this answer means: duplicate, rejected, retry, denied, or accepted if the order exists\n"+
		"    reason: %s   # dead letters are grouped by it\n"+
		"    # final: true   # beside rejected or retry, if the answer proves that nothing exists under this order_no%s",
		a.Status, kind, what, a.beginning(), yamlQuote(Bounded(what, maxShown)), yamlQuote(rule), likely, yamlQuote(Bounded(reason, maxShown)), more)
}

// yamlQuote writes a text as one line of YAML.
func yamlQuote(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// condition returns a condition that the answer fulfils: its status, and the member that
// contradicts an acceptance, or the names of at most four members.
func (a *Answer) condition() string {
	a.parse()
	rule, f := "status == "+strconv.Itoa(a.Status), &a.findings
	object, isObject := a.json.(map[string]any)
	switch {
	case len(a.Body) == 0:
		return rule + ` && text == ""`
	case !isObject:
		if start := commonStart(a.Body, a.Excerpt(a.Body, 32)); start != "" { // it ends before the first key
			return rule + " && text startsWith " + strconv.Quote(start)
		}
		return rule + ` && text != ""`
	case f.contradictionValue != nil:
		return rule + " && " + a.memberCondition()
	case f.contradiction != "":
		return rule + " && " + f.contradiction + " != nil"
	}
	names := slices.Sorted(maps.Keys(object))
	for _, name := range names[:min(len(names), 4)] {
		rule += " && " + strconv.Quote(a.Excerpt([]byte(name), 64)) + " in body"
	}
	return rule
}

// maxShown is the most bytes of a body that a message shows.
const maxShown = 200

// beginning returns a sentence with the beginning of the body.
func (a *Answer) beginning() string {
	if len(a.Body) == 0 {
		return ""
	}
	return "The answer begins: " + a.Shown() + ". "
}

// Shown returns the beginning of the body in one line, without keys.
func (a *Answer) Shown() string {
	return strings.Join(strings.Fields(a.Excerpt(a.Body, maxShown)), " ")
}

// memberCondition returns a condition on the member that contradicts. Of a long text,
// or one with a key in it, the condition compares only the beginning.
func (a *Answer) memberCondition() string {
	f := &a.findings
	if f.contradictionValue[0] == '"' {
		whole, err := jsontext.AppendUnquote(nil, f.contradictionValue)
		if begin := commonStart(whole, a.Excerpt(whole, 64)); err == nil && len(begin) < len(whole) {
			return f.contradiction + " startsWith " + strconv.Quote(begin)
		}
	}
	return f.contradiction + " == " + a.ruleLiteral(f.contradictionValue)
}

// commonStart returns the part in which a text and its excerpt agree.
func commonStart(text []byte, excerpt string) string {
	n := 0
	for n < min(len(excerpt), len(text)) && excerpt[n] == text[n] {
		n++
	}
	return strings.TrimRightFunc(strings.ToValidUTF8(string(text[:n]), "\uFFFD"), func(r rune) bool { return r == utf8.RuneError })
}

// ruleLiteral writes a JSON value as a literal of a rule, shortened.
func (a *Answer) ruleLiteral(raw []byte) string {
	switch raw[0] {
	case 'n':
		return "nil"
	case '"':
		text, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return "…"
		}
		return strconv.Quote(a.Excerpt(text, 64))
	default:
		return Bounded(string(raw), 64)
	}
}
