package submit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
)

// Checked is what an answer of the API would be taken for.
type Checked struct {
	Status  int
	Verdict order.Verdict
	Final   bool
	// Reason is what would be recorded, Detail says more where there is more.
	Reason, Detail string
	// Rule is the number of the rule that matched, Line its line in the rules
	// file; 0 = built in.
	Rule, Line int
	// Wait is the least time before the next attempt; with Throttle for the
	// whole pool.
	Wait      time.Duration
	Throttle  bool
	TimeError bool
	// Hold, if not empty, says why the pool would be held.
	Hold string
	// First is the outcome if this answers an order's proven first attempt,
	// Doubted if an earlier attempt may have created it; OutcomeNone = it is
	// asked again.
	First, Doubted order.Outcome
}

// Check says what an answer would be taken for under rules (nil = none), a
// policy for doubtful orders, and the longest Retry-After that is honoured. raw
// is an HTTP response as `curl -i` prints it, or a body alone, which is then
// taken to come with the given status (0 = 200).
func Check(rules *Rules, policy order.Policy, longest time.Duration, raw []byte, status int) (Checked, error) {
	a, err := pastedAnswer(raw, status)
	if err != nil {
		return Checked{}, err
	}
	j := rules.judge(&a, 1)
	c := Checked{Status: a.status, Verdict: j.verdict, Final: j.final, Reason: j.reason, Detail: j.detail, Rule: j.rule,
		Wait: max(j.wait, min(retryAfter(a.header, time.Now()), longest)), Throttle: j.throttle, TimeError: j.timeError, Hold: j.hold}
	if j.rule > 0 {
		c.Line = rules.list[j.rule-1].line
	}
	if j.misplaced {
		c.Hold = "404 and 405 without a rule are taken for a wrong ORDERPOST_API_URL"
	}
	c.First = outcomeOf(j, policy, false)
	c.Doubted = outcomeOf(j, policy, true)
	return c, nil
}

// outcomeOf decides as the worker would, for an order whose doubt is given.
func outcomeOf(j judgement, policy order.Policy, doubted bool) order.Outcome {
	end := order.EndAnswer
	switch {
	case j.misplaced, j.timeError, j.verdict == order.Retry, j.verdict == order.Denied:
		return order.OutcomeNone
	case j.verdict == order.Unsure && policy == order.Resubmit:
		end = order.EndVisitBudget
	}
	r := order.Report{End: end, Verdict: j.verdict, Final: j.final,
		History: order.History{Attempts: 1, Unsure: doubted || j.verdict == order.Unsure}}
	return order.Decide(r, order.Facts{Policy: policy, FirstProven: !doubted}).Outcome
}

// pastedAnswer reads what a person pasted. Lengths and encodings in the
// headers are not minded: the text has been through a terminal.
func pastedAnswer(raw []byte, status int) (answer, error) {
	text := bytes.TrimLeft(raw, " \t\r\n")
	if !bytes.HasPrefix(text, []byte("HTTP/")) {
		if status == 0 {
			status = http.StatusOK
		}
		if status < minStatus || status > maxStatus {
			return answer{}, fmt.Errorf("status %d is not between %d and %d", status, minStatus, maxStatus)
		}
		return answer{status: status, header: http.Header{}, body: bytes.TrimSpace(raw), complete: true}, nil
	}
	tp := textproto.NewReader(bufio.NewReader(bytes.NewReader(text)))
	first, err := tp.ReadLine()
	if err != nil {
		return answer{}, fmt.Errorf("status line: %w", err)
	}
	_, rest, _ := strings.Cut(first, " ")
	code, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	seen, err := strconv.Atoi(code)
	if err != nil || seen < minStatus || seen > maxStatus {
		return answer{}, fmt.Errorf("status line %q has no status from %d to %d", first, minStatus, maxStatus)
	}
	if status != 0 && status != seen {
		return answer{}, fmt.Errorf("the answer says status %d, but %d was given", seen, status)
	}
	header, err := tp.ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) && len(header) == 0 {
		return answer{}, fmt.Errorf("headers: %w", err)
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(tp.R); err != nil {
		return answer{}, err
	}
	return answer{status: seen, header: http.Header(header), body: bytes.TrimSpace(body.Bytes()), complete: true}, nil
}
