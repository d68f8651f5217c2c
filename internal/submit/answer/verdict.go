package answer

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"orderpost/internal/order"
)

// Judgement is what one attempt is taken to have done, and what follows.
type Judgement struct {
	Verdict order.Verdict
	// Final: the answer proves that nothing exists under this order_no.
	Final bool
	// Reason is short and stable, for grouping; detail is for people.
	Reason, Detail string
	// Wait is the least time before the order is asked again.
	Wait time.Duration
	// Throttle: wait is for the whole pool (429, or by rule).
	Throttle bool
	// Excused: a throttle of this order alone, too early to count against it.
	Excused bool
	// TimeError: the API says that the timestamp is off.
	TimeError bool
	// Hold, if not empty, stops the pool and says why (a 2xx that nobody can read).
	Hold string
	// Misplaced: 404 or 405 without a rule; the URL or the path is wrong.
	Misplaced bool
	// Failed: the API, or the way to it, looks broken; the breaker counts it.
	Failed bool
	// Rule is the 1-based number of the rule that matched; 0 = built in.
	Rule int
	// ownNumbers: the rule says that the API has numbers of its own under order_no.
	ownNumbers bool
}

// NoAnswer is the verdict where no answer was read. maySent: some of the order may
// have reached the API. reason is the stable phrase of the transport error.
func NoAnswer(maySent bool, reason, detail string) Judgement {
	j := Judgement{Verdict: order.Retry, Reason: reason, Detail: detail, Failed: true}
	if maySent {
		j.Verdict = order.Unsure
	}
	return j
}

// judgeStatus is the built-in verdict of an answer, after the rules.
func judgeStatus(a *Answer) Judgement {
	by := func(v order.Verdict) Judgement {
		return Judgement{Verdict: v, Reason: fmt.Sprintf("%s by status %d", pastTense(v), a.Status)}
	}
	switch s := a.Status; {
	case s >= 200 && s < 300:
		return judgeSuccess(a)
	case s == http.StatusRequestTimeout || s == http.StatusTooEarly:
		return by(order.Retry)
	case s == http.StatusTooManyRequests:
		j := by(order.Retry)
		j.Throttle = true
		return j
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		return by(order.Denied)
	case s == http.StatusConflict:
		return by(order.Duplicate)
	case s == http.StatusNotFound || s == http.StatusMethodNotAllowed:
		j := by(order.Rejected)
		j.Misplaced = true
		return j
	case s >= 300 && s < 400:
		j := by(order.Rejected)
		j.Detail = "redirects are not followed: a signed order is not handed to another address"
		return j
	case s >= 400 && s < 500, s == http.StatusNotImplemented, s == http.StatusHTTPVersionNotSupported:
		return by(order.Rejected)
	default: // 5xx, a final 1xx, and what is no status at all
		j := by(order.Unsure)
		j.Failed = true
		return j
	}
}

func pastTense(v order.Verdict) string {
	switch v {
	case order.Retry:
		return "put off"
	case order.Unsure:
		return "left open"
	case order.Rejected:
		return "refused"
	default:
		return v.String()
	}
}

// judgeSuccess takes a 2xx for accepted only if its body can be read and does
// not contradict it.
func judgeSuccess(a *Answer) Judgement {
	doubt := func(what, rule string) Judgement {
		return Judgement{Verdict: order.Unsure, Reason: fmt.Sprintf("status %d, but %s", a.Status, what), Hold: a.wanted(what, rule, "")}
	}
	status := "status == " + strconv.Itoa(a.Status)
	if !a.Complete {
		j := doubt("its body was cut short or too long", status)
		j.Hold, j.Failed = "", true // a fault of the line, not of the rules
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
		return doubt("its body is not a JSON object", status+" && "+a.startOf())
	case f.against != "":
		name := strings.TrimPrefix(f.against, "body.")
		if f.againstValue == nil {
			return doubt("its body has "+name, status+" && "+f.against+" != nil")
		}
		shown := a.literal(f.againstValue)
		return doubt("its body says "+name+" = "+shown, status+" && "+f.against+" == "+shown)
	default:
		return accepted(a)
	}
}

// wanted is the reason of a hold that a rule ends: what is wrong with the
// answer, the answer, and the rule to write. The rule's verdict is one that
// decides nothing, in case somebody copies it without thinking.
func (a *Answer) wanted(what, rule, more string) string {
	kind := ""
	if t := a.Header.Get("Content-Type"); t != "" {
		kind = " (" + a.Excerpt([]byte(t), 64) + ")"
	}
	return fmt.Sprintf("an answer with status %d%s was not taken for accepted: %s. %sWrite a rule for it into the ORDERPOST_RULES file, such as\n"+
		"  - when: '%s'\n    verdict: unsure   # put here what this answer means: duplicate, rejected, retry, denied, or accepted if the order exists%s",
		a.Status, kind, what, a.begins(), strings.ReplaceAll(rule, "'", "''"), more)
}

// startOf is a condition on the beginning of a body that is not JSON. It ends
// where a key begins.
func (a *Answer) startOf() string {
	clean, n := a.Excerpt(a.Body, 32), 0
	for n < min(len(clean), len(a.Body)) && clean[n] == a.Body[n] {
		n++
	}
	start := strings.TrimRightFunc(strings.ToValidUTF8(string(a.Body[:n]), "\uFFFD"), func(r rune) bool { return r == utf8.RuneError })
	if start == "" {
		return `text != ""`
	}
	return "text startsWith " + strconv.Quote(start)
}

// maxShown bounds what a message shows of a body, in bytes.
const maxShown = 200

// begins shows the beginning of the body in a sentence.
func (a *Answer) begins() string {
	if len(a.Body) == 0 {
		return ""
	}
	return "The answer begins: " + a.Shown() + ". "
}

// Shown is the beginning of the body in one line.
func (a *Answer) Shown() string {
	return strings.Join(strings.Fields(a.Excerpt(a.Body, maxShown)), " ")
}

func accepted(a *Answer) Judgement {
	if a.Status == http.StatusOK {
		return Judgement{Verdict: order.Accepted, Reason: "accepted by status 200"}
	}
	return Judgement{Verdict: order.Accepted, Reason: fmt.Sprintf("accepted by status %d", a.Status)}
}

// literal writes a JSON value as a rule would, bounded: it stands in reasons.
func (a *Answer) literal(raw []byte) string {
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
