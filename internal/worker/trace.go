package worker

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/ops/tracing/span"
	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/submit"
)

// deliveryObserver reports one delivery's progress to logs, metrics and traces. It
// implements settle.Observer. No span holds a body or a secret.
type deliveryObserver struct {
	pool      *Pool
	delivered uint64
	intent    string     // its ID
	span      trace.Span // nil = no traces
	sampled   string     // the trace's ID; "" = not sampled
	settling  time.Time  // when the writing of the outcome began
}

// observe returns the observer of a delivery whose pull began at pulled, and starts
// its spans.
func (p *Pool) observe(d *settle.Delivery, pulled time.Time) *deliveryObserver {
	o := &deliveryObserver{pool: p, delivered: d.Delivered, intent: d.Intent.ID}
	if p.Trace == nil {
		return o
	}
	ctx := span.Context(d.Intent.Traceparent)
	now := time.Now()
	if pulled.Before(d.EnqueuedAt) {
		pulled = d.EnqueuedAt // the broker's clock may be ahead
	}
	if pulled.After(now) {
		pulled = now
	}
	stream, about := p.Queue.StreamOf(false), trace.WithAttributes(span.OrderNo.String(d.OrderNo()))
	var links []trace.SpanStartOption
	if trace.SpanContextFromContext(ctx).IsValid() {
		links = append(links, trace.WithLinks(trace.LinkFromContext(ctx))) // the conventions want it beside the parent
	}
	received, receive := span.Receive.Start(ctx, p.Trace, stream, d.Intent.ID, append(links, about, trace.WithTimestamp(pulled))...)
	if links == nil {
		ctx = received // receive is the root of the trace
	}
	receive.End(trace.WithTimestamp(now))
	_, o.span = span.Process.Start(ctx, p.Trace, stream, d.Intent.ID, append(links, about, trace.WithTimestamp(now), trace.WithAttributes(
		span.Batch.String(d.Intent.Batch), attribute.String("orderpost.work", d.Work.String()),
		attribute.Int64("orderpost.delivered", int64(d.Delivered)), //nolint:gosec // a count
		attribute.Float64("orderpost.queued_seconds", now.Sub(d.EnqueuedAt).Seconds())))...)
	if c := o.span.SpanContext(); c.IsSampled() {
		o.sampled = c.TraceID().String()
	}
	return o
}

// Submitting implements settle.Observer.
func (o *deliveryObserver) Submitting(ctx context.Context) context.Context {
	if o.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, o.span)
}

// traceID returns the trace's ID for logs; "" = no traces.
func (o *deliveryObserver) traceID() string {
	if o.span == nil {
		return ""
	}
	return o.span.SpanContext().TraceID().String()
}

// Settling implements settle.Observer.
func (o *deliveryObserver) Settling(s order.Settlement) func(*order.Record, error) {
	o.settling = time.Now()
	if o.span == nil {
		return func(*order.Record, error) {}
	}
	_, settling := span.Settle.Start(o.Submitting(context.Background()), o.pool.Trace, o.pool.Queue.StreamOf(false), o.intent, trace.WithAttributes(attribute.String("orderpost.action", s.Action.String())))
	return func(rec *order.Record, err error) {
		if err != nil {
			settling.SetStatus(codes.Error, err.Error())
			span.Failed(settling, "not stored")
		}
		if rec != nil {
			settling.SetAttributes(span.Outcome.String(rec.Word))
			o.span.SetAttributes(span.Outcome.String(rec.Word), attribute.Int("orderpost.attempts", rec.Attempts), attribute.Bool("orderpost.unsure", rec.Unsure))
		}
		settling.End()
	}
}

// Panicked implements settle.Observer.
func (o *deliveryObserver) Panicked(what any) {
	if o.span != nil {
		o.span.SetStatus(codes.Error, fmt.Sprintf("panic: %v", what))
		span.Failed(o.span, "panic")
	}
}

func (o *deliveryObserver) end() {
	if o.span != nil {
		o.span.End()
	}
}

// AttemptTracer returns a tracer that creates a span for each attempt, below the
// order's span. It returns nil if t is nil.
func AttemptTracer(t trace.Tracer) submit.Tracer {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, to *url.URL, attempt int) submit.Span {
		ctx, post := span.Request(ctx, t, to, attempt)
		out := submit.Span{Traceparent: span.Header(ctx)}
		if c := post.SpanContext(); c.IsSampled() {
			out.TraceID = c.TraceID().String()
		}
		out.Ended = func(a submit.AttemptEvent) {
			post.SetAttributes(attribute.Int("orderpost.attempt", a.Attempt),
				attribute.String("orderpost.verdict", a.Verdict.String()), attribute.String("orderpost.reason", a.Reason),
				attribute.Float64("orderpost.gate_wait_seconds", a.GateWait.Seconds()))
			span.Answered(post, a.Status)
			if !a.Verdict.Exists() {
				post.SetStatus(codes.Error, a.Verdict.String())
				span.Failed(post, failure(a))
			}
			post.End(trace.WithTimestamp(a.Started.Add(a.Duration)))
		}
		return out
	}
}

// failure names the kind of a failed attempt: the status, or why there is none, or the
// verdict on a status that is no failure by itself.
func failure(a submit.AttemptEvent) string {
	switch {
	case a.Status == 0:
		return a.Reason
	case a.Status >= 400:
		return strconv.Itoa(a.Status)
	default:
		return a.Verdict.String()
	}
}
