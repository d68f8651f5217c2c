package gateway

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"orderpost/internal/ops/tracing/span"
	"orderpost/internal/queue"
	"orderpost/internal/settle"
)

// TestTheTraceOfAnOrder goes from the client's span through the door's to the worker, for
// one order and on lines. Without traces the client's header goes on as it is.
func TestTheTraceOfAnOrder(t *testing.T) {
	t.Parallel()
	const client, its = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "4bf92f3577b34da6a3ce929d0e0e4736"
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	for _, on := range []bool{true, false} {
		r := newRig(t, func(o *Options, _ *queue.Config) {
			if on {
				o.Trace = provider.Tracer("test")
			}
		})
		require.Equal(t, http.StatusCreated, r.do("POST", "/v1/orders", body("A"), headerTraceparent, client).status)
		require.Contains(t, r.do("POST", "/v1/orders", body("B")+"\n", headerTraceparent, client, "Content-Type", mediaLines).text, `"stored"`)
		require.Equal(t, http.StatusConflict, r.do("POST", "/v1/orders", body("A"), headerKey, "other").status)
		carried := make(map[string]string)
		for len(carried) < 2 {
			require.NoError(t, r.worker.Pull(t.Context(), 2, patience, func(ds []*settle.Delivery) {
				for _, d := range ds {
					carried[d.OrderNo()] = d.Intent.Traceparent
					d.Release()
				}
			}))
		}
		if !on {
			require.Equal(t, map[string]string{"A": client, "B": client}, carried)
			continue
		}
		got := spans.GetSpans()
		require.Len(t, got, 6)
		for i, no := range []string{"A", "B"} {
			send, request := got[2*i], got[2*i+1]
			require.Equal(t, []string{span.Submit, its, "00f067aa0ba902b7"}, []string{request.Name, request.SpanContext.TraceID().String(), request.Parent.SpanID().String()})
			require.Equal(t, span.Send.On("ORDERS"), send.Name)
			require.Equal(t, request.SpanContext.SpanID(), send.Parent.SpanID())
			require.Equal(t, "00-"+its+"-"+send.SpanContext.SpanID().String()+"-01", carried[no])
		}
		send, request := got[4], got[5]
		require.Equal(t, "pending", send.Status.Description)
		require.Equal(t, codes.Unset, request.Status.Code, "a client's mistake is no failure of the door")
		require.Contains(t, request.Attributes, attribute.Int("http.response.status_code", http.StatusConflict))
		require.False(t, request.Parent.IsValid(), "it is a trace of its own")
	}
}
