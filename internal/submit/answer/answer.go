package answer

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"orderpost/internal/order"
)

// MaxBody is the most bytes of a body that a verdict is based on. A longer body
// counts as cut short.
const MaxBody = 256 << 10

// Answer is the response to one request. Status 0 means that no response headers
// were read.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// Complete says that the whole body was read and decoded.
	Complete bool

	// Stray says that the answer arrived before the request was sent, or that another one
	// follows it: it may be that of another request.
	Stray bool

	orderNo  string // the order number that was sent; "" = not known
	examined bool
	findings findings // of a complete body

	Scrub Scrubber // removes keys from quoted parts of the answer; may be nil

	parsed bool
	json   any  // the body as JSON
	isJSON bool // the body is one JSON value, valid UTF-8, without duplicate names
}

// Bounded cuts text to at most limit bytes at a rune boundary and makes it
// valid UTF-8.
func Bounded(text string, limit int) string {
	return strings.ToValidUTF8(order.Truncate(text, limit), "\uFFFD")
}

// Scrubber returns the beginning of a text with all keys removed.
type Scrubber interface {
	Excerpt(text []byte, limit int) string
}

// Excerpt returns at most limit bytes of a part of the answer, without keys.
func (a *Answer) Excerpt(text []byte, limit int) string {
	if a.Scrub == nil {
		return Bounded(string(text), limit)
	}
	return a.Scrub.Excerpt(text, limit)
}

// Examine reads what a complete body says about our order. Only the first call
// has an effect. orderNo "" means that the order number is not known.
func (a *Answer) Examine(orderNo string) {
	if a.examined {
		return
	}
	a.examined, a.orderNo = true, orderNo
	if a.Complete && len(a.Body) > 0 {
		a.findings = examine(a.Body, orderNo)
	}
}

// AboutAnother reports whether the answer is about another order. An acceptance
// is if it names any order_no that is not ours. Other answers may hold a message
// in a member order_no, or the number of the order that ours collides with.
func (a *Answer) AboutAnother(acceptance bool) bool {
	f := &a.findings
	return f.other != nil && (acceptance || f.otherIsNumber && !f.ours)
}

// parse parses the body as JSON on its first call.
func (a *Answer) parse() {
	if a.parsed {
		return
	}
	a.parsed = true
	if !a.Complete || len(a.Body) == 0 {
		return
	}
	var v any
	if json.Unmarshal(a.Body, &v) == nil {
		a.json, a.isJSON = wholeNumbers(v), true
	}
}

// unreadable reports whether the body begins like JSON but is none that rules can read:
// not UTF-8, a name twice, a byte order mark, a number beyond a float64.
func (a *Answer) unreadable() bool {
	a.parse()
	text := bytes.TrimLeft(bytes.TrimPrefix(a.Body, []byte("\xef\xbb\xbf")), " \t\r\n")
	return !a.isJSON && len(text) > 0 && (text[0] == '{' || text[0] == '[')
}

// wholeNumbers converts floats without a fraction to ints. Rules can then use
// `body.code % 100 == 4` and `string(body.code)`.
func wholeNumbers(v any) any {
	switch x := v.(type) {
	case float64:
		if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
			return int(x)
		}
	case map[string]any:
		for k, e := range x {
			x[k] = wholeNumbers(e)
		}
	case []any:
		for i, e := range x {
			x[i] = wholeNumbers(e)
		}
	}
	return v
}

// env returns the variables that rules see.
func (a *Answer) env(attempt int) ruleEnv {
	a.parse()
	e := ruleEnv{OrderNo: a.orderNo, Status: a.Status, Text: string(a.Body), Attempt: attempt, Headers: make(map[string]string, len(a.Header))}
	if a.isJSON {
		e.Body = a.json
	} else {
		e.Body = e.Text
	}
	for name, values := range a.Header {
		e.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return e
}

// RetryAfter returns the wait that a Retry-After header asks for, in seconds or
// as a date (RFC 9110, section 10.2.3). It returns 0 without a valid header and
// for a past date. It compares a date with the answer's own Date header, if there
// is one, because the clocks may differ.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v == "" {
		return 0
	}
	if isDigits(v) {
		s, err := strconv.ParseInt(v, 10, 64)
		if err != nil || s > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(s) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

// maxRetryAfter bounds the returned wait and prevents overflows. The submitter
// applies its own, lower limit.
const maxRetryAfter = 24 * time.Hour

func isDigits(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
