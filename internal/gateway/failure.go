package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"orderpost/internal/door"
	"orderpost/internal/order"
)

// How long a client is asked to wait before it asks again.
const (
	retryFull        = 10 * time.Second
	retryUnavailable = 2 * time.Second
	retryDraining    = time.Second
	retrySlots       = time.Second
	retryCrowded     = 5 * time.Second
)

// storing returns the problem that an error of a submission is.
func (c *call) storing(err error, orderNo, submission string) *problem {
	p := c.storingProblem(err)
	p.cause = err
	return p.of(orderNo, submission)
}

func (c *call) storingProblem(err error) *problem {
	if bad, ok := errors.AsType[*door.InvalidError](err); ok {
		return invalid(bad)
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

// invalid returns the problem of an order that can never be sent.
func invalid(bad *door.InvalidError) *problem {
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

// looking returns the problem that an error of a look-up is. An order that nobody knows
// and one that the client may not see have the same answer.
func looking(err error) *problem {
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

// reading returns the problem that an error of reading a body is.
func reading(err error, limit int) *problem {
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
