package gateway

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"orderpost/internal/door"
)

// submit stores one order, or one on each line.
func (c *call) submit() (err error) {
	done := c.serving()
	defer func() { done(err) }()
	kind, p := bodyKind(c.Request)
	if p != nil {
		return p
	}
	o, key, p := orderOf(c.Request, c.client)
	if p != nil {
		return p
	}
	if kind == mediaLines {
		return c.submitLines(o, key)
	}
	if c.ContentLength > int64(c.client.maxBody) {
		c.w.Header().Set("Connection", "close")
		return tooLargeBody(c.client.maxBody)
	}
	if o.Body, p = c.body(); p != nil {
		return p
	}
	o.ID = submissionID(c.client.name, key, o.Body)
	return c.store(o)
}

// body reads the body of one order.
func (c *call) body() ([]byte, *problem) {
	_ = c.control.SetReadDeadline(time.Now().Add(c.s.bodyTimeout))
	defer c.bodyEnds()()
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.Body, int64(c.client.maxBody)))
	if p := c.recheck(); p != nil {
		c.w.Header().Set("Connection", "close")
		return nil, p
	}
	if err != nil {
		c.w.Header().Set("Connection", "close")
		return nil, reading(err, c.client.maxBody)
	}
	c.read = true
	_ = c.control.SetReadDeadline(time.Time{}) // else it would end the request while the broker stores it
	return body, nil
}

// store stores one order and answers once the broker confirmed it.
func (c *call) store(o door.Order) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), c.s.storeTimeout) // a client that has ended its side ends the request's own
	defer cancel()
	span := c.traced(&o)
	r, err := c.s.door.Submit(ctx, o)
	if err != nil {
		p := c.storing(err, r.OrderNo, o.ID)
		endSpan(span, r, p)
		c.s.metrics.Submitted(p.name())
		return p
	}
	endSpan(span, r, nil)
	out := receiptOf(r, o.ID)
	c.s.metrics.Submitted(out.Result)
	c.w.Header().Set("Location", orderURL(r.OrderNo, r.ID))
	c.answer(out.Status, out)
	return nil
}

// receiptOf returns the answer to an order that is stored, with the ID that it was sent with.
func receiptOf(r door.Receipt, id string) receipt {
	out := receipt{Status: http.StatusCreated, OrderNo: r.OrderNo, Submission: id, Result: "stored"}
	if r.Status == door.Same {
		out.Status, out.Result = http.StatusOK, "same"
	}
	return out
}

// orderURL returns where the outcome of a submission is, or without one that of the order.
func orderURL(orderNo, submission string) string {
	where := "/v1/orders?order_no=" + escape(orderNo)
	if submission != "" {
		where += "&submission=" + escape(submission)
	}
	return where
}

// escape escapes the value of a parameter, and a blank as %20: not every proxy takes + for one.
func escape(value string) string { return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") }

// answer answers with a value of ours as JSON.
func (c *call) answer(status int, v any) {
	c.deadline()
	c.w.Header().Set("Content-Type", mediaJSON)
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.WriteHeader(status)
	_, _ = c.w.Write(jsonLine(v)) // the client is gone
}
