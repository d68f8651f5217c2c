package worker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/settle"
)

// TestTracesThatAreOffCostNothing: an order's journey is one small allocation,
// which its log line and its metrics need, too. Traces add none.
func TestTracesThatAreOffCostNothing(t *testing.T) {
	p := &Pool{}
	d := &settle.Delivery{Intent: settle.Intent{Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}
	rec := &order.Record{}
	ctx, pulled := t.Context(), time.Now()
	require.Nil(t, AttemptTracer(nil))
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		j := p.observe(d, pulled)
		var within context.Context = j.Submitting(ctx)
		settled := j.Settling(order.Settlement{})
		settled(rec, nil)
		j.Panicked(nil)
		j.end()
		if within != ctx || j.traceID() != "" {
			panic("something was made")
		}
	}), 1.0)
}
