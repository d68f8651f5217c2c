package worker

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/order"
	"orderpost/internal/settle"
	"orderpost/internal/submit"
)

// The spans of an order's trace. The producer's traceparent is the parent of receive
// and process. Without one, receive starts the trace.
const (
	spanReceive = "receive" // from the later of pull and arrival to the end of the check
	spanProcess = "process" // the handling, with all attempts and waits
	spanAttempt = "POST"    // one attempt
	spanSettle  = "settle"  // result, dead letter and acknowledgement
)

// deliveryObserver reports one delivery's progress to logs, metrics and traces. It
// implements settle.Observer. No span holds a body or a secret.
type deliveryObserver struct {
	pool      *Pool
	delivered uint64
	span      trace.Span // nil = no traces
	settling  time.Time  // when the writing of the outcome began
}

// observe returns the observer of a delivery whose pull began at pulled, and starts
// its spans.
func (p *Pool) observe(d *settle.Delivery, pulled time.Time) *deliveryObserver {
	o := &deliveryObserver{pool: p, delivered: d.Delivered}
	if p.Trace == nil {
		return o
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": d.Intent.Traceparent})
	now := time.Now()
	if pulled.Before(d.StoredAt) {
		pulled = d.StoredAt // the broker's clock may be ahead
	}
	if pulled.After(now) {
		pulled = now
	}
	order := attribute.String("orderpost.order_no", d.OrderNo())
	_, receive := p.Trace.Start(ctx, spanReceive, trace.WithTimestamp(pulled), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(order))
	if parent := receive.SpanContext(); parent.IsValid() && !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, parent) // receive is the root of the trace
	}
	receive.End(trace.WithTimestamp(now))
	_, span := p.Trace.Start(ctx, spanProcess, trace.WithTimestamp(now), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(order,
		attribute.String("messaging.message.id", d.Intent.ID), attribute.String("orderpost.batch", d.Intent.Batch),
		attribute.String("orderpost.work", d.Work.String()), attribute.Int64("orderpost.delivered", int64(d.Delivered)), //nolint:gosec // a count
		attribute.Float64("orderpost.queued_seconds", now.Sub(d.StoredAt).Seconds())))
	o.span = span
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
	_, span := o.pool.Trace.Start(o.Submitting(context.Background()), spanSettle, trace.WithAttributes(attribute.String("orderpost.action", s.Action.String())))
	return func(rec *order.Record, err error) {
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		if rec != nil {
			span.SetAttributes(attribute.String("orderpost.outcome", rec.Word))
			o.span.SetAttributes(attribute.String("orderpost.outcome", rec.Word), attribute.Int("orderpost.attempts", rec.Attempts), attribute.Bool("orderpost.unsure", rec.Unsure))
		}
		span.End()
	}
}

// Panicked implements settle.Observer.
func (o *deliveryObserver) Panicked(what any) {
	if o.span != nil {
		o.span.SetStatus(codes.Error, fmt.Sprintf("panic: %v", what))
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
	return func(ctx context.Context) (string, func(submit.AttemptEvent)) {
		ctx, span := t.Start(ctx, spanAttempt, trace.WithSpanKind(trace.SpanKindClient))
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		return carrier["traceparent"], func(a submit.AttemptEvent) {
			span.SetAttributes(
				attribute.String("http.request.method", "POST"), attribute.Int("orderpost.attempt", a.Attempt),
				attribute.String("orderpost.verdict", a.Verdict.String()), attribute.String("orderpost.reason", a.Reason),
				attribute.Float64("orderpost.gate_wait_seconds", a.GateWait.Seconds()))
			if a.Status != 0 {
				span.SetAttributes(attribute.Int("http.response.status_code", a.Status))
			}
			if a.Verdict != order.Accepted && a.Verdict != order.Duplicate {
				span.SetStatus(codes.Error, a.Verdict.String())
			}
			span.End(trace.WithTimestamp(a.Started.Add(a.Duration)))
		}
	}
}
