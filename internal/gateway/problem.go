package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"orderpost/internal/gateway/door"
	"orderpost/internal/ops"
	"orderpost/internal/order"
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
	badRequest         = kind{"bad-request", http.StatusBadRequest, "The request cannot be read."}
	invalidJSON        = kind{"invalid-json", http.StatusBadRequest, "The body is no JSON."}
	unauthorized       = kind{"unauthorized", http.StatusUnauthorized, "The token is missing, or nobody's."}
	forbidden          = kind{"forbidden", http.StatusForbidden, "The client may not do this."}
	notFound           = kind{"not-found", http.StatusNotFound, "There is nothing at this address."}
	unknownOrder       = kind{"unknown-order", http.StatusNotFound, "Nobody knows this order."}
	unknownImport      = kind{"unknown-import", http.StatusNotFound, "Nobody knows this import."}
	badMethod          = kind{"method-not-allowed", http.StatusMethodNotAllowed, "This address does not take this method."}
	slowBody           = kind{"slow-body", http.StatusRequestTimeout, "The body did not arrive in time."}
	pendingOther       = kind{"pending", http.StatusConflict, "Another submission of this order_no is pending."}
	settledOther       = kind{"settled", http.StatusConflict, "The order cannot be withdrawn any more."}
	notReady           = kind{"not-ready", http.StatusConflict, "The import is not that far."}
	goneBy             = kind{"position-gone", http.StatusGone, "The results do not reach to this position."}
	tooLarge           = kind{"too-large", http.StatusRequestEntityTooLarge, "The body is too large."}
	mediaType          = kind{"media-type", http.StatusUnsupportedMediaType, "The body has another media type."}
	misdirected        = kind{"misdirected", http.StatusMisdirectedRequest, "The request is for another host."}
	invalidOrder       = kind{"invalid-order", http.StatusUnprocessableEntity, "The order can never be sent."}
	invalidImport      = kind{"invalid-import", http.StatusUnprocessableEntity, "The file cannot be imported; nothing of it is stored."}
	keyReused          = kind{"key-reused", http.StatusUnprocessableEntity, "The key names another order."}
	tooMany            = kind{"too-many-requests", http.StatusTooManyRequests, "The client asks for more than its share."}
	internal           = kind{"internal", http.StatusInternalServerError, "The door failed."}
	noImports          = kind{"no-imports", http.StatusNotImplemented, "This door takes no files."}
	full               = kind{"full", http.StatusServiceUnavailable, "There is no room for orders; nothing was stored."}
	unavailable        = kind{"unavailable", http.StatusServiceUnavailable, "The broker is out of reach; nothing was stored."}
	unreachable        = kind{"unreachable", http.StatusServiceUnavailable, "The broker is out of reach."}
	notSearched        = kind{"not-searched", http.StatusServiceUnavailable, "The door cannot tell now."}
	draining           = kind{"draining", http.StatusServiceUnavailable, "The door is being closed; nothing was done."}
	tooManyConnections = kind{"too-many-connections", http.StatusServiceUnavailable, "The door has no room for another connection; nothing was done."}
	noRoom             = kind{"no-room", http.StatusInsufficientStorage, "There is no room for the file; nothing of it is kept."}
	unconfirmed        = kind{"unconfirmed", http.StatusGatewayTimeout, "The broker did not confirm the order in time; it may be stored."}
	unansweredLook     = kind{"unanswered", http.StatusGatewayTimeout, "The broker did not answer in time."}
)

// kinds lists every kind, for the document and its test.
func kinds() []kind {
	return []kind{badRequest, invalidJSON, unauthorized, forbidden, notFound, unknownOrder, unknownImport, badMethod, slowBody, pendingOther, settledOther, notReady, goneBy, tooLarge,
		mediaType, misdirected, invalidOrder, invalidImport, keyReused, tooMany, internal, noImports, full, unavailable, unreachable, notSearched, draining, tooManyConnections, noRoom, unconfirmed, unansweredLook}
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
	return &problem{Type: typePrefix + k.name, Title: k.title, Status: k.status, Detail: door.Sentence(where, seen, do), Where: where, Seen: seen, Do: do}
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
	text := jsonLine(p)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(text) // the client is gone
}

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

// How long a client is asked to wait before it asks again.
const (
	retryFull        = 10 * time.Second
	retryUnavailable = 2 * time.Second
	retryDraining    = time.Second
	retrySlots       = time.Second
	retryConnections = 5 * time.Second
)

// storeProblem returns the problem that an error of a submission is.
func (c *call) storeProblem(err error, orderNo, submission string) *problem {
	p := c.kindOfStoreProblem(err)
	p.cause = err
	return p.of(orderNo, submission)
}

func (c *call) kindOfStoreProblem(err error) *problem {
	if bad, ok := errors.AsType[*door.InvalidError](err); ok {
		return invalidProblem(bad)
	}
	const again = "send the request again with the same Idempotency-Key, or with the same body and none"
	switch _, maybe := errors.AsType[*door.UnconfirmedError](err); {
	case maybe:
	case errors.Is(err, door.ErrIDUsed):
		where := "header " + headerKey
		if c.Header.Get(headerKey) == "" {
			where = "submission"
		}
		return problemOf(keyReused, where, "it named another order or another body before, or a submission that another one of the order has replaced; nothing was stored now",
			"send another key with another order, and the same body with the same key; what became of the order: GET /v1/orders?order_no=…")
	case errors.Is(err, door.ErrPending):
		return problemOf(pendingOther, "order_no", "another submission of this order waits for its outcome, so this one was not stored",
			"wait for that outcome (GET /v1/orders?order_no=…&wait=60s), and post again if the order is still wanted")
	case errors.Is(err, door.ErrFull):
		return problemOf(full, "", "the broker takes no more orders", again+", later").retry(retryFull)
	case errors.Is(err, door.ErrUnavailable), errors.Is(err, door.ErrClosed):
		return problemOf(unavailable, "", "", again).retry(retryUnavailable)
	}
	return problemOf(unconfirmed, "", "", again+"; nothing is stored twice").retry(retryUnavailable)
}

// internalProblem returns the problem that any other error is.
func internalProblem(err error) *problem {
	p := problemOf(internal, "", "", "tell whoever runs the door; its log says more")
	p.cause = err
	return p
}

// headerOf names the header that a field of door.Order comes from.
var headerOf = map[string]string{"id": headerKey, "deadline": headerDeadline, "not_before": headerNotBefore, "lane": headerLane, "batch": headerBatch, "traceparent": headerTraceparent}

// invalidProblem returns the problem of an order that can never be sent.
func invalidProblem(bad *door.InvalidError) *problem {
	where, k := bad.Where, invalidOrder
	if h, of := headerOf[where]; of && bad.Code == "bad_"+where { // else it is a field of the body with that name
		where = "header " + h
	}
	switch order.Code(bad.Code) {
	case order.CodeTooLarge:
		k = tooLarge
	case order.CodeInvalidJSON, order.CodeInvalidUTF8:
		k = invalidJSON
	}
	return problemOf(k, where, bad.Seen, bad.Do)
}

// lookupProblem returns the problem that an error of a look-up is. An order that nobody knows
// and one that the client may not see have the same answer.
func lookupProblem(err error) *problem {
	var p *problem
	switch {
	case errors.Is(err, door.ErrUnknownOrder):
		return noSuchOrder()
	case errors.Is(err, door.ErrPending): // of a withdrawal
		return problemOf(pendingOther, "order_no", "another submission of this order waits, too, and would be withdrawn with this one; nothing was done", "wait for its outcome, or let a person withdraw both (orderpost enqueue cancel --order)")
	case errors.Is(err, door.ErrPosition):
		return problemOf(goneBy, "position", "it is beyond the end of the results, which were made anew or restored since", "follow them from after=0")
	case errors.Is(err, door.ErrUnavailable), errors.Is(err, door.ErrClosed):
		p = problemOf(unreachable, "", "", "ask again").retry(retryUnavailable)
	case errors.Is(err, context.DeadlineExceeded):
		p = problemOf(unansweredLook, "", "", "ask again").retry(retryUnavailable)
	default:
		p = problemOf(unreachable, "", "the broker refused or did not answer; the door's log says why", "ask again, or tell whoever runs the door").retry(retryUnavailable)
	}
	p.cause = err
	return p
}

func noSuchOrder() *problem {
	return problemOf(unknownOrder, "order_no", "there is no such order or submission, or it is another client's", "compare order_no and submission with the receipt")
}

// bodyProblem returns the problem that an error of reading a body is.
func bodyProblem(err error, limit int) *problem {
	_, large := errors.AsType[*http.MaxBytesError](err)
	var p *problem
	switch {
	case large:
		return tooLargeBody(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		p = problemOf(slowBody, "body", "it did not arrive in time", "look at the connection, and send it again")
	case errors.Is(err, io.ErrUnexpectedEOF):
		p = problemOf(badRequest, "body", "it broke off", "send it again")
	default:
		p = problemOf(badRequest, "body", "its transfer encoding is broken", "send it again with a Content-Length, or in whole chunks")
	}
	p.cause = err
	return p
}

func tooLargeBody(limit int) *problem {
	return problemOf(tooLarge, "body", fmt.Sprintf("it has more than %d bytes", limit), "send a smaller order; this is the most that this client may send")
}

// MetricsOptions name what the door answers.
func MetricsOptions() ops.GatewayOptions {
	o := ops.GatewayOptions{Routes: []string{"submit", "order", "cancel", "outcomes", "import", "import-state", "import-cancel", "import-results", otherRoute}, Results: []string{"stored", "same"},
		Statuses: []int{http.StatusOK, http.StatusCreated, http.StatusAccepted}}
	for _, k := range []kind{invalidOrder, invalidJSON, keyReused, pendingOther, full, unavailable, unconfirmed, tooLarge, slowBody, badRequest, draining} {
		o.Results = append(o.Results, k.name) // others end a request before it has an order
	}
	for _, k := range kinds() {
		o.Statuses = append(o.Statuses, k.status)
	}
	slices.Sort(o.Statuses)
	o.Statuses = slices.Compact(o.Statuses)
	return o
}
