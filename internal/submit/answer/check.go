package answer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/order"
)

// Checked is the result of [Check].
type Checked struct {
	// Judgement is the worker's. Wait includes what the answer's Retry-After asks for.
	Judgement
	Status int
	// Line is the line of the rule that matched in the rules file; 0 for a built-in verdict.
	Line int
	// First is the outcome of an order whose proven first attempt got this
	// answer. Doubted is the outcome of an order that an earlier attempt may have
	// created. OutcomeNone means that the worker would try again.
	First, Doubted order.Outcome
}

// Check tells how a worker would judge an answer under rules (nil = none), a
// policy for doubtful orders, and the longest Retry-After to honour. The worker has
// seen no other answer yet. orderNo is the order's number; "" = not known.
//
// raw is an HTTP response as `curl -i` prints it, or a body alone. A body alone
// gets the given status (0 = 200).
func Check(rules *Rules, policy order.Policy, longest time.Duration, raw []byte, status int, orderNo string) (Checked, error) {
	a, err := pastedAnswer(raw, status)
	if err != nil {
		return Checked{}, err
	}
	a.Examine(orderNo)
	judge := Judge{Rules: rules}
	j := judge.Judgement(&a, 1)
	c := Checked{Judgement: j, Status: a.Status, First: outcomeOf(j, policy, false), Doubted: outcomeOf(j, policy, true)}
	c.Wait = max(j.Wait, min(RetryAfter(a.Header, time.Now()), longest))
	if j.Rule > 0 {
		c.Line = rules.now().list[j.Rule-1].line
	}
	if j.Misplaced {
		c.Hold = fmt.Sprintf("%d without a rule is taken for a wrong ORDERPOST_API_URL", a.Status)
	}
	return c, nil
}

// outcomeOf returns the outcome that the worker would settle. doubted says that
// an earlier attempt may have created the order.
func outcomeOf(j Judgement, policy order.Policy, doubted bool) order.Outcome {
	if j.Misplaced || j.TimeError {
		return order.OutcomeNone
	}
	r := order.Report{End: order.EndAnswer, Verdict: j.Verdict, Final: j.Final,
		History: order.History{Attempts: 1, Unsure: doubted || j.Verdict.LeavesDoubt()}}
	return order.Decide(&r, order.Facts{Policy: policy, FirstProven: !doubted}).Outcome
}

// pastedAnswer parses what a person pasted. It ignores Content-Length and the
// encoding headers, because the text has been through a terminal. curl prints the heads
// of a proxy and of interim answers before that of the answer: the last head counts.
func pastedAnswer(raw []byte, status int) (Answer, error) {
	text := bytes.TrimLeft(raw, " \t\r\n")
	if !bytes.HasPrefix(text, []byte("HTTP/")) {
		if status == 0 {
			status = http.StatusOK
		}
		if status < minStatus || status > maxStatus {
			return Answer{}, fmt.Errorf("status %d is not between %d and %d", status, minStatus, maxStatus)
		}
		return Answer{Status: status, Header: http.Header{}, Body: bytes.TrimSpace(raw), Complete: true}, nil
	}
	a := Answer{Complete: true}
	var err error
	a.Status, a.Header, a.Body, err = pastedHead(text)
	for err == nil && anotherHead.Match(a.Body) {
		a.Status, a.Header, a.Body, err = pastedHead(a.Body)
	}
	if err != nil {
		return Answer{}, err
	}
	if status != 0 && status != a.Status {
		return Answer{}, fmt.Errorf("the answer says status %d, but %d was given", a.Status, status)
	}
	return a, nil
}

// anotherHead finds a status line where a body would begin. A body may begin with HTTP/, too.
var anotherHead = regexp.MustCompile(`^HTTP/[0-9.]+ +[0-9]{3}\b`)

// pastedHead parses a status line and its headers, and returns what follows them.
func pastedHead(text []byte) (status int, header http.Header, rest []byte, err error) {
	tp := textproto.NewReader(bufio.NewReader(bytes.NewReader(text)))
	first, err := tp.ReadLine()
	if err != nil {
		return 0, nil, nil, fmt.Errorf("status line: %w", err)
	}
	_, after, _ := strings.Cut(first, " ")
	code, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	status, err = strconv.Atoi(code)
	if err != nil || status < minStatus || status > maxStatus {
		return 0, nil, nil, fmt.Errorf("status line %q has no status from %d to %d", first, minStatus, maxStatus)
	}
	fields, err := tp.ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) && len(fields) == 0 {
		return 0, nil, nil, fmt.Errorf("headers: %w", err)
	}
	rest, err = io.ReadAll(tp.R)
	return status, http.Header(fields), bytes.TrimSpace(rest), err
}
