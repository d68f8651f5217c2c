package span

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// stopTimeout bounds the export of the remaining spans in Stop.
const stopTimeout = 5 * time.Second

// Tracing holds a program's tracer. All methods work on nil, which stands for tracing that is off.
type Tracing struct {
	tracer   trace.Tracer
	shutdown func(context.Context) error
}

// NewTracing returns a tracer's Tracing. shutdown exports the remaining spans.
func NewTracing(t trace.Tracer, shutdown func(context.Context) error) *Tracing {
	return &Tracing{tracer: t, shutdown: shutdown}
}

// Tracer returns the tracer, or nil if tracing is off.
func (t *Tracing) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// Stop exports the remaining spans. It takes at most five seconds.
func (t *Tracing) Stop() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = t.shutdown(ctx) // the exporter has logged its error
}

// Producer returns a function that starts the trace of a new intent, which stream takes,
// and returns the W3C traceparent header. Producer returns nil if tracing is off.
func (t *Tracing) Producer() func(orderNo, intentID, stream string) string {
	if t == nil {
		return nil
	}
	return func(orderNo, intentID, stream string) string {
		ctx, s := Create.Start(context.Background(), t.tracer, stream, intentID, trace.WithNewRoot(), trace.WithAttributes(OrderNo.String(orderNo)))
		s.End()
		return Header(ctx)
	}
}
