// Package tracing sets up OpenTelemetry traces. The standard OTEL_* variables
// configure them. Only this package imports the SDK. Packages that create spans
// import the API. Tracing is off by default: there is no tracer, and orders cost
// nothing extra.
//
// Spans are exported as OTLP over HTTP with protobuf. The specification recommends
// this protocol, and every collector accepts it on port 4318. It needs no permanent
// connection, passes proxies, and can be tested with a plain HTTP server.
package tracing
