// Package tracing sets OpenTelemetry traces up, by the standard OTEL_*
// variables and no settings of our own. It is the only place that knows the
// SDK; whoever makes spans imports the API. Off, which is the default, there is
// no tracer at all, and nothing is done for an order.
//
// Spans are exported as OTLP over HTTP with protobuf, the protocol that the
// specification recommends and every collector takes on port 4318. It needs no
// connection that is kept up, goes through proxies, and is tested against a
// plain HTTP server.
package tracing
