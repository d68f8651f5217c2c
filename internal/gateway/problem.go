package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// kind is one kind of problem. Its name is the end of the problem's type, and clients
// decide by it or by the status.
type kind struct {
	name   string
	status int
	title  string
}

// typePrefix begins the types of all problems.
const typePrefix = "urn:orderpost:problem:"

// The kinds of problems. A refused order was not stored, except maybe one that is
// unconfirmed.
var (
	badRequest     = kind{"bad-request", http.StatusBadRequest, "The request cannot be read."}
	invalidJSON    = kind{"invalid-json", http.StatusBadRequest, "The body is no JSON."}
	unauthorized   = kind{"unauthorized", http.StatusUnauthorized, "The token is missing, or nobody's."}
	forbidden      = kind{"forbidden", http.StatusForbidden, "The client may not do this."}
	notFound       = kind{"not-found", http.StatusNotFound, "There is nothing at this address."}
	unknownOrder   = kind{"unknown-order", http.StatusNotFound, "Nobody knows this order."}
	unknownImport  = kind{"unknown-import", http.StatusNotFound, "Nobody knows this import."}
	badMethod      = kind{"method-not-allowed", http.StatusMethodNotAllowed, "This address does not take this method."}
	slowBody       = kind{"slow-body", http.StatusRequestTimeout, "The body did not arrive in time."}
	pendingOther   = kind{"pending", http.StatusConflict, "Another submission of this order_no is pending."}
	settledOther   = kind{"settled", http.StatusConflict, "The order cannot be withdrawn any more."}
	notReady       = kind{"not-ready", http.StatusConflict, "The import is not that far."}
	goneBy         = kind{"position-gone", http.StatusGone, "The results do not reach to this position."}
	tooLarge       = kind{"too-large", http.StatusRequestEntityTooLarge, "The body is too large."}
	mediaType      = kind{"media-type", http.StatusUnsupportedMediaType, "The body has another media type."}
	misdirected    = kind{"misdirected", http.StatusMisdirectedRequest, "The request is for another host."}
	invalidOrder   = kind{"invalid-order", http.StatusUnprocessableEntity, "The order can never be sent."}
	invalidImport  = kind{"invalid-import", http.StatusUnprocessableEntity, "The file cannot be imported; nothing of it is stored."}
	keyReused      = kind{"key-reused", http.StatusUnprocessableEntity, "The key names another order."}
	tooMany        = kind{"too-many-requests", http.StatusTooManyRequests, "The client asks for more than its share."}
	internal       = kind{"internal", http.StatusInternalServerError, "The door failed."}
	noImports      = kind{"no-imports", http.StatusNotImplemented, "This door takes no files."}
	full           = kind{"full", http.StatusServiceUnavailable, "There is no room for orders; nothing was stored."}
	unavailable    = kind{"unavailable", http.StatusServiceUnavailable, "The broker is out of reach; nothing was stored."}
	unreachable    = kind{"unreachable", http.StatusServiceUnavailable, "The broker is out of reach."}
	notSearched    = kind{"not-searched", http.StatusServiceUnavailable, "The door cannot tell now."}
	draining       = kind{"draining", http.StatusServiceUnavailable, "The door is being closed; nothing was done."}
	tooManyAtAll   = kind{"crowded", http.StatusServiceUnavailable, "The door has no room for another connection; nothing was done."}
	noRoom         = kind{"no-room", http.StatusInsufficientStorage, "There is no room for the file; nothing of it is kept."}
	unconfirmed    = kind{"unconfirmed", http.StatusGatewayTimeout, "The broker did not confirm the order in time; it may be stored."}
	unansweredLook = kind{"unanswered", http.StatusGatewayTimeout, "The broker did not answer in time."}
)

// kinds lists every kind, for the document and its test.
func kinds() []kind {
	return []kind{badRequest, invalidJSON, unauthorized, forbidden, notFound, unknownOrder, unknownImport, badMethod, slowBody, pendingOther, settledOther, notReady, goneBy, tooLarge,
		mediaType, misdirected, invalidOrder, invalidImport, keyReused, tooMany, internal, noImports, full, unavailable, unreachable, notSearched, draining, tooManyAtAll, noRoom, unconfirmed, unansweredLook}
}

// problem is an answer that is not 2xx, as RFC 9457 has it. It is the error of the
// package's handlers.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail joins Where, Seen and Do for people.
	Detail string `json:"detail"`
	// Where is the place in the request: a path in the body, a header, a parameter.
	Where string `json:"where,omitempty"`
	// Seen is what was found there.
	Seen string `json:"seen,omitempty"`
	// Do is what the client can do.
	Do string `json:"do,omitempty"`

	// Line is the line of a stream that the problem is about.
	Line int `json:"line,omitempty"`
	// OrderNo and Submission name the order, where it is known.
	OrderNo    string `json:"order_no,omitempty"`
	Submission string `json:"submission,omitempty"`
	// Outcome is what became of an order that cannot be withdrawn.
	Outcome *outcome `json:"outcome,omitempty"`

	retryAfter time.Duration // for Retry-After; 0 = none
	allow      string        // for Allow
	accept     string        // for Accept-Post
	cause      error         // for the log; the client is not told
	cut        bool          // what was written of an answer must not look whole
}

// problemOf makes a problem. Each of where, seen and do may be empty.
func problemOf(k kind, where, seen, do string) *problem {
	return &problem{Type: typePrefix + k.name, Title: k.title, Status: k.status, Detail: sentence(where, seen, do), Where: where, Seen: seen, Do: do}
}

// sentence joins the parts that are there: "timeout: is missing; add it".
func sentence(where, seen, do string) string {
	text := where
	if seen != "" && text != "" {
		text += ": "
	}
	if text += seen; do != "" && text != "" {
		text += "; "
	}
	return text + do
}

// Error implements error.
func (p *problem) Error() string { return p.Title + " " + p.Detail }

// Unwrap returns what the client is not told.
func (p *problem) Unwrap() error { return p.cause }

// retry says when the client may ask again.
func (p *problem) retry(after time.Duration) *problem {
	p.retryAfter = after
	return p
}

// of names the order that the problem is about.
func (p *problem) of(orderNo, submission string) *problem {
	p.OrderNo, p.Submission = orderNo, submission
	return p
}

// write answers a request with the problem.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds(p.retryAfter)))
	}
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="orderpost"`)
	case http.StatusUnsupportedMediaType:
		h.Set("Accept-Post", p.accept)
	}
	text := p.line()
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // the client is gone
}

// line returns the problem as one line of JSON.
func (p *problem) line() []byte { return jsonLine(p) }

// jsonLine returns a value of ours as one line.
func jsonLine(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil { // our own types can be written
		panic(err)
	}
	return append(text, '\n')
}

// name returns the end of the problem's type.
func (p *problem) name() string { return strings.TrimPrefix(p.Type, typePrefix) }

// ProblemTypes lists the types of all problems, as docs/openapi.yaml does.
func ProblemTypes() (types []string) {
	for _, k := range kinds() {
		types = append(types, typePrefix+k.name)
	}
	return types
}
