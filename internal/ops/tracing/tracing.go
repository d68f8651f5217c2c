package tracing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"orderpost/internal/ops/tracing/span"
)

// scope is the name of the instrumentation scope.
const scope = "orderpost"

// Options identify the program.
type Options struct {
	// Program is worker or enqueue. The service name is orderpost-<program> unless
	// OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES set another one.
	Program, Version string
	// Instance distinguishes the workers of one fleet. It may be empty.
	Instance string
	// Environ decides whether tracing is on, and where spans go. The SDK reads the options of sampling and
	// batches, and the attributes of the resource, from the environment of the process.
	Environ map[string]string
	// Log gets one line about variables that cannot be followed, one when the receiver fails and one when
	// it works again.
	Log zerolog.Logger
}

// wanted reports whether the variables turn tracing on. Its error names one that this program
// cannot follow.
func wanted(environ map[string]string) (bool, error) {
	// The values of OpenTelemetry's enumerations and booleans may have any case; a boolean is false
	// unless it is "true".
	value := func(name string) string { return strings.ToLower(strings.TrimSpace(environ[name])) }
	endpoint, _ := exporterOption(environ, "ENDPOINT")
	protocol, variable := exporterOption(environ, "PROTOCOL")
	exporters := strings.FieldsFunc(value("OTEL_TRACES_EXPORTER"), func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case value("OTEL_SDK_DISABLED") == "true", slices.Contains(exporters, "none"), len(exporters) == 0 && endpoint == "":
		return false, nil
	case len(exporters) > 0 && !slices.Contains(exporters, "otlp"):
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER: %q is not one of otlp, none", environ["OTEL_TRACES_EXPORTER"])
	case protocol != "" && !strings.EqualFold(protocol, "http/protobuf"):
		return false, fmt.Errorf("%s: %q is not supported, only http/protobuf (usually on port 4318)", variable, environ[variable])
	}
	return true, nil
}

// Start starts exporting traces if OTEL_EXPORTER_OTLP_ENDPOINT,
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_TRACES_EXPORTER=otlp is set. Otherwise
// it returns nil. A platform sets such variables for all of its programs, so one that this
// program cannot follow is logged, and orders go on without traces. An unreachable receiver is
// no error: the exporter drops the spans, and orders never wait.
func Start(ctx context.Context, o Options) *span.Tracing {
	on, err := wanted(o.Environ)
	var t *span.Tracing
	if on {
		t, err = start(ctx, o)
	}
	if err != nil {
		o.Log.Warn().Err(err).Msg("going on without traces; correct the variable, or set OTEL_SDK_DISABLED=true")
	}
	return t
}

func start(ctx context.Context, o Options) (*span.Tracing, error) {
	c, err := newClient(o.Environ, o.Version)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(ctx, c)
	if err != nil {
		return nil, err
	}
	own := []attribute.KeyValue{semconv.ServiceName(scope + "-" + o.Program), semconv.ServiceVersion(o.Version)}
	if o.Instance != "" {
		own = append(own, semconv.ServiceInstanceID(o.Instance))
	}
	res, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(own...), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrSchemaURLConflict) {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	p := sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(&watched{SpanExporter: exporter, log: o.Log}))
	return span.NewTracing(p.Tracer(scope, trace.WithInstrumentationVersion(o.Version), trace.WithSchemaURL(span.SchemaURL)), p.Shutdown), nil
}

// watched is an exporter that logs the start and the end of an outage of the
// receiver. The SDK exports one batch at a time, so it needs no lock.
type watched struct {
	sdktrace.SpanExporter
	log     zerolog.Logger
	failing bool
	lost    int // spans dropped in this outage
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
	return nil // already logged
}
