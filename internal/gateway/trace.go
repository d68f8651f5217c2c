package gateway

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/door"
	"orderpost/internal/tracing/span"
)

// serving starts the span of a request that brings orders, below the client's. done ends
// it. If the client's traceparent cannot be read, it goes on as it is, without spans.
func (c *call) serving() (done func(error)) {
	if c.s.trace == nil {
		return func(error) {}
	}
	given := c.Header.Get(headerTraceparent)
	ctx := span.Context(given)
	if given != "" && !trace.SpanContextFromContext(ctx).IsValid() {
		return func(error) {}
	}
	var s trace.Span
	c.within, s = span.Serving(ctx, c.s.trace, c.TLS != nil)
	return func(err error) {
		status := http.StatusInternalServerError // without an answer or a problem it panicked
		if p, ok := errors.AsType[*problem](err); ok {
			status = p.Status
		} else if w, ok := c.w.(*answered); ok && w.status != 0 {
			status = w.status
		}
		span.Answered(s, status)
		if status >= http.StatusInternalServerError {
			s.SetStatus(codes.Error, "")
			span.Failed(s, strconv.Itoa(status))
		}
		s.End()
	}
}

// traced starts the span of an order: from its arrival to the broker's confirmation. The
// order carries it on to the worker. It holds no body.
func (c *call) traced(o *door.Order) trace.Span {
	if c.within == nil {
		return nil
	}
	stream := c.s.streamOf(o.Lane != "" || o.NotBefore.After(time.Now()))
	ctx, s := span.Send.Start(c.within, c.s.trace, stream, o.ID, trace.WithAttributes(span.Source.String(o.Source), span.Batch.String(o.Batch)))
	o.Traceparent = span.Header(ctx)
	return s
}

// endSpan ends a span of traced with what became of the order.
func endSpan(s trace.Span, r door.Receipt, p *problem) {
	if s == nil {
		return
	}
	s.SetAttributes(span.OrderNo.String(r.OrderNo))
	if p != nil {
		s.SetStatus(codes.Error, p.name())
		span.Failed(s, p.name())
	}
	s.End()
}
