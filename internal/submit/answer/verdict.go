package answer

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"orderpost/internal/order"
)

// Judgement is the verdict on one attempt and what follows from it.
type Judgement struct {
	Verdict order.Verdict
	// Final says that the answer proves that no order exists under this order_no.
	Final bool
	// Reason is short and stable, for grouping. Detail is for people.
	Reason, Detail string
	// Wait is the shortest time before the next attempt.
	Wait time.Duration
	// Throttle applies Wait to the whole pool (429, or by rule).
	Throttle bool
	// Excused says that a throttle concerns this order alone and does not count
	// against its retry budget yet.
	Excused bool
	// TimeError says that the API refused the timestamp.
	TimeError bool
	// Hold, if not empty, stops the pool. It says why, for example because a 2xx
	// answer is unreadable.
	Hold string
	// Misplaced marks a 404, or a status like it, without a rule: the URL or the path is wrong.
	Misplaced bool
	// AtProxy says that a proxy answered in place of the API.
	AtProxy bool
	// Failed says that the API, or the way to it, looks broken. The breaker counts it.
	Failed bool
	// Rule is the 1-based number of the rule that matched; 0 = built in.
	Rule int
	// RuleAt names that rule, its file and its line, for people.
	RuleAt string
	// otherOrderNo says that the rule accepts another order_no in the answer.
	otherOrderNo bool
	// untested says that a rule with the verdict accepted reads the body, and did not
	// match this one.
	untested bool
}

// NoAnswer returns the judgement of an attempt without an answer. maySent says
// that a part of the request may have reached the API. reason is the stable phrase
// for the transport error.
func NoAnswer(maySent bool, reason, detail string) Judgement {
	j := Judgement{Verdict: order.Retry, Reason: reason, Detail: detail, Failed: true}
	if maySent {
		j.Verdict = order.Unsure
	}
	return j
}

// judgeSuccess judges a 2xx. It accepts it only if the body is readable and does
// not contradict an acceptance.
func judgeSuccess(a *Answer) Judgement {
	doubt := func(what, rule string) Judgement { return a.undecided(what, what, rule) }
	status := "status == " + strconv.Itoa(a.Status)
	if !a.Complete {
		j := doubt("its body was cut short or too long", status)
		j.Hold, j.Failed = "", true // the connection is at fault, no rule would help
		return j
	}
	if len(a.Body) == 0 {
		if a.Status == http.StatusCreated || a.Status == http.StatusNoContent {
			return accepted(a)
		}
		return doubt("its body is empty", status+` && text == ""`)
	}
	a.Examine("")
	switch f := &a.findings; {
	case !f.object:
		return doubt("its body is not a JSON object", status+" && "+a.bodyCondition())
	case f.contradiction != "":
		name := strings.TrimPrefix(f.contradiction, "body.")
		if f.contradictionValue == nil {
			return doubt("its body has "+name, status+" && "+f.contradiction+" != nil")
		}
		shown := a.ruleLiteral(f.contradictionValue)
		return doubt("its body says "+name+" = "+shown, status+" && "+a.memberCondition())
	default:
		return accepted(a)
	}
}

// holdReason returns the reason of a hold that a new rule would end. It says what
// is wrong with the answer, shows the answer, and proposes a rule. The proposed
// verdict is unsure, because somebody may copy the rule without thinking. reason is
// the order's until then, rule the condition, and more further lines of the rule.
func (a *Answer) holdReason(reason, what, rule, more string) string {
	kind := ""
	if t := a.Header.Get("Content-Type"); t != "" {
		kind = " (" + a.Excerpt([]byte(t), 64) + ")"
	}
	return fmt.Sprintf("an answer with status %d%s settles nothing: %s. %sWrite a rule for it into the ORDERPOST_RULES file, such as\n"+
		"  - name: %s\n    when: %s\n    verdict: unsure   # put here what this answer means: duplicate, rejected, retry, denied, or accepted if the order exists\n"+
		"    reason: %s   # dead letters are grouped by it\n"+
		"    # final: true   # beside rejected or retry, if the answer proves that nothing exists under this order_no%s",
		a.Status, kind, what, a.beginning(), yamlQuote(Bounded(what, maxShown)), yamlQuote(rule), yamlQuote(Bounded(reason, maxShown)), more)
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

// bodyCondition returns a condition on the beginning of a body that is not JSON.
// The quoted text ends before the first key in it.
func (a *Answer) bodyCondition() string {
	start := commonStart(a.Body, a.Excerpt(a.Body, 32))
	if start == "" {
		return `text != ""`
	}
	return "text startsWith " + strconv.Quote(start)
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

func accepted(a *Answer) Judgement {
	if a.Status == http.StatusOK {
		return Judgement{Verdict: order.Accepted, Reason: "accepted by status 200"}
	}
	return Judgement{Verdict: order.Accepted, Reason: fmt.Sprintf("accepted by status %d", a.Status)}
}

// memberCondition returns a condition on the member that contradicts. Of a long text,
// or one with a key in it, the condition compares only the beginning.
func (a *Answer) memberCondition() string {
	f := &a.findings
	literal := a.ruleLiteral(f.contradictionValue)
	if f.contradictionValue[0] == '"' {
		whole, err := jsontext.AppendUnquote(nil, f.contradictionValue)
		if begin := commonStart(whole, a.Excerpt(whole, 64)); err == nil && len(begin) < len(whole) {
			return f.contradiction + " startsWith " + strconv.Quote(begin)
		}
	}
	return f.contradiction + " == " + literal
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
