// Package span starts spans that are named and described as OpenTelemetry's semantic
// conventions for messaging and HTTP have it. It imports the API, not the SDK.
//
// JetStream has no conventions of its own. Here the destination is the stream, because a
// subject holds the order number. The creation context that an intent carries is the
// parent of the spans receive and process, and is linked to them.
package span

import (
	"context"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

// SchemaURL names the version of the conventions.
const SchemaURL = semconv.SchemaURL

// Attributes of our own.
const (
	OrderNo = attribute.Key("orderpost.order_no")
	Batch   = attribute.Key("orderpost.batch")
	Source  = attribute.Key("orderpost.source")
	Outcome = attribute.Key("orderpost.outcome")
)

// The names of spans of HTTP.
const (
	Post   = "POST"            // a request to the API
	Submit = "POST /v1/orders" // a request at the HTTP door
)

var system = semconv.MessagingSystemKey.String("nats") // the conventions list no name for NATS

// Operation is what a span of messaging does with an intent.
type Operation struct {
	name string
	of   attribute.KeyValue
	kind trace.SpanKind
}

var (
	// Create makes an intent, which is published with others later.
	Create = Operation{"create", semconv.MessagingOperationTypeCreate, trace.SpanKindProducer}
	// Send publishes an intent, until the broker confirmed it.
	Send = Operation{"send", semconv.MessagingOperationTypeSend, trace.SpanKindProducer}
	// Receive takes from the later of pull and arrival to the end of the check.
	Receive = Operation{"receive", semconv.MessagingOperationTypeReceive, trace.SpanKindClient}
	// Process handles an intent, with all attempts and waits.
	Process = Operation{"process", semconv.MessagingOperationTypeProcess, trace.SpanKindConsumer}
	// Settle writes result and dead letter, and acknowledges.
	Settle = Operation{"settle", semconv.MessagingOperationTypeSettle, trace.SpanKindClient}
)

// On returns the name of the operation's span on a stream.
func (op Operation) On(stream string) string { return op.name + " " + stream }

// Start starts the span of an operation on an intent: its stream and ID.
func (op Operation) Start(ctx context.Context, t trace.Tracer, stream, id string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return t.Start(ctx, op.On(stream), append(options, trace.WithSpanKind(op.kind), trace.WithAttributes(system, op.of,
		semconv.MessagingOperationName(op.name), semconv.MessagingDestinationName(stream), semconv.MessagingMessageID(id)))...)
}

// Context returns a context with the span of a W3C traceparent header, if that is valid.
func Context(traceparent string) context.Context {
	return propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
}

// Header returns the W3C traceparent header of the context's span.
func Header(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// Request starts the span of a POST to an address, which must hold no credentials. attempt
// counts from 1.
func Request(ctx context.Context, t trace.Tracer, to *url.URL, attempt int) (context.Context, trace.Span) {
	port, err := strconv.Atoi(to.Port())
	if err != nil {
		port = map[string]int{"https": 443, "http": 80}[to.Scheme]
	}
	about := []attribute.KeyValue{semconv.HTTPRequestMethodPost, semconv.ServerAddress(to.Hostname()), semconv.ServerPort(port),
		semconv.URLFull(to.String()), semconv.NetworkProtocolVersion("1.1")}
	if attempt > 1 {
		about = append(about, semconv.HTTPRequestResendCount(attempt-1))
	}
	return t.Start(ctx, Post, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(about...))
}

// Serving starts the span of a request at the HTTP door that brings orders.
func Serving(ctx context.Context, t trace.Tracer, secure bool) (context.Context, trace.Span) {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	const route = "/v1/orders"
	return t.Start(ctx, Submit, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(semconv.HTTPRequestMethodPost,
		semconv.HTTPRoute(route), semconv.URLPath(route), semconv.URLScheme(scheme), semconv.NetworkProtocolVersion("1.1")))
}

// Answered sets the status of an answer; 0 = there was none.
func Answered(s trace.Span, status int) {
	if status != 0 {
		s.SetAttributes(semconv.HTTPResponseStatusCode(status))
	}
}

// Failed sets what kind of failure ended the span: one of a small set of words.
func Failed(s trace.Span, kind string) { s.SetAttributes(semconv.ErrorTypeKey.String(kind)) }
