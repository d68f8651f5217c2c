package tracing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// stopTimeout bounds the sending of what is left at the end.
const stopTimeout = 5 * time.Second

// scope names the spans' origin.
const scope = "orderpost"

// Options say whose traces these are.
type Options struct {
	// Program is worker or enqueue; the service is called orderpost-<program>
	// unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say otherwise.
	Program, Version string
	// Instance tells the workers of one fleet apart; may be empty.
	Instance string
	// Environ decides whether there are traces. How they are exported, the SDK
	// reads from the process's own environment.
	Environ map[string]string
	// Log hears of a receiver that fails, once, and of its return.
	Log zerolog.Logger
}

// Tracing is a program's traces. All methods may be called on nil, which is
// what Start returns where they are off.
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// wanted reads the variables that say whether there are traces.
func wanted(environ map[string]string) (bool, error) {
	endpoint := environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]
	if endpoint == "" {
		endpoint = environ["OTEL_EXPORTER_OTLP_ENDPOINT"]
	}
	exporter := environ["OTEL_TRACES_EXPORTER"]
	switch {
	case environ["OTEL_SDK_DISABLED"] == "true", exporter == "none", exporter == "" && endpoint == "":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not one of otlp, none", exporter)
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if p := environ[name]; p != "" {
			if p != "http/protobuf" {
				return false, fmt.Errorf("%s: %q is not supported, only http/protobuf (usually on port 4318)", name, p)
			}
			break
		}
	}
	return true, nil
}

// Start begins to export traces where OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER=otlp ask for them;
// else it returns nil. The error names the variable that cannot be used. A
// receiver that is out of reach is none: spans are dropped, orders never wait.
func Start(ctx context.Context, o Options) (*Tracing, error) {
	on, err := wanted(o.Environ)
	if err != nil || !on {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_*: %w", err)
	}
	own := []attribute.KeyValue{attribute.String("service.name", scope+"-"+o.Program), attribute.String("service.version", o.Version)}
	if o.Instance != "" {
		own = append(own, attribute.String("service.instance.id", o.Instance))
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(own...), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(&watched{SpanExporter: exporter, log: o.Log}))
	return &Tracing{provider: p, tracer: p.Tracer(scope, trace.WithInstrumentationVersion(o.Version))}, nil
}

// Tracer makes spans; nil where traces are off.
func (t *Tracing) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.tracer
}

// Stop sends what is left, for five seconds at most.
func (t *Tracing) Stop() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has said why
}

// Producer gives the function that begins an order's trace when its intent is
// made, and returns the W3C header for it; nil where traces are off.
func (t *Tracing) Producer() func(orderNo, intentID string) string {
	if t == nil {
		return nil
	}
	return func(orderNo, intentID string) string {
		ctx, span := t.tracer.Start(context.Background(), "enqueue", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindProducer),
			trace.WithAttributes(attribute.String("orderpost.order_no", orderNo), attribute.String("messaging.message.id", intentID)))
		span.End()
		carrier := propagation.MapCarrier{}
		propagation.TraceContext{}.Inject(ctx, carrier)
		return carrier["traceparent"]
	}
}

// watched logs once that the receiver fails, and that it works again.
type watched struct {
	sdktrace.SpanExporter
	log     zerolog.Logger
	failing bool // spans are exported one batch after another
	lost    int
}

// ExportSpans implements sdktrace.SpanExporter.
func (w *watched) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := w.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil:
		if !w.failing {
			w.log.Warn().Err(err).Msg("traces cannot be exported and are dropped; orders are not affected")
		}
		w.failing, w.lost = true, w.lost+len(spans)
	case w.failing:
		w.log.Info().Int("spans_lost", w.lost).Msg("traces are exported again")
		w.failing, w.lost = false, 0
	}
	return nil // said
}
