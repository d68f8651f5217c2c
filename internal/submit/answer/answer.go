package answer

import (
	"math"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"orderpost/internal/order"
)

// MaxBody is the number of body bytes that are read for a verdict. A longer
// body counts as cut short.
const MaxBody = 256 << 10

// Answer is what came back for one request. Status 0 means that no answer's
// headers were read.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// Complete: the body was read to its end and undone from its encoding.
	Complete bool

	// Stray: it was there before the request was sent, so it answers another one.
	Stray bool

	orderNo  string // of the order that it answers; "" = not known
	examined bool
	findings findings // of a complete body

	Scrub Scrubber // takes keys out of what is shown of the answer; nil = nothing

	parsed bool
	json   any  // body as JSON; nil if it is none
	isJSON bool // body is one JSON value, UTF-8, without duplicate names
}

// Bounded cuts text to at most limit bytes at a rune boundary and makes it
// valid UTF-8.
func Bounded(text string, limit int) string {
	return strings.ToValidUTF8(order.Truncate(text, limit), "\uFFFD")
}

// Scrubber shows the beginning of a text without the keys in it.
type Scrubber interface {
	Excerpt(text []byte, limit int) string
}

// Excerpt shows at most limit bytes of a part of the answer.
func (a *Answer) Excerpt(text []byte, limit int) string {
	if a.Scrub == nil {
		return Bounded(string(text), limit)
	}
	return a.Scrub.Excerpt(text, limit)
}

// Examine reads a complete body once for what it says about our order.
// orderNo "" = not known.
func (a *Answer) Examine(orderNo string) {
	if a.examined {
		return
	}
	a.examined, a.orderNo = true, orderNo
	if a.Complete && len(a.Body) > 0 {
		a.findings = examine(a.Body, orderNo)
	}
}

// AboutAnother says whether the answer names an order_no that is not ours. An
// acceptance must not name any; of other answers a member order_no may hold a
// message about that field, or the order that ours collides with.
func (a *Answer) AboutAnother(acceptance bool) bool {
	f := &a.findings
	return f.other != nil && (acceptance || f.numbered && !f.ours)
}

// parse reads the body as JSON, once, and only when somebody asks.
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

// wholeNumbers turns floats without a fraction into ints, so that a rule may
// write `body.code % 100 == 4` or `string(body.code)`.
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

// env is the answer as rules see it.
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
