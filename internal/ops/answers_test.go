package ops

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// TestFailedOrdersHaveABoundedNumberOfSeries, whatever the API says.
func TestFailedOrdersHaveABoundedNumberOfSeries(t *testing.T) {
	reg := NewRegistry()
	m := New(reg, Options{})
	for i := range 500 {
		m.Failed(422, fmt.Sprint("message ", i))
	}
	m.Failed(422, "message 0")
	m.Failed(0, "")
	n, err := testutil.GatherAndCount(reg, "orderpost_failed_orders_total")
	require.NoError(t, err)
	require.Equal(t, maxAnswers+2, n)
	require.InDelta(t, 2, testutil.ToFloat64(m.answers.vec.WithLabelValues("422", "message 0")), 0)
	require.InDelta(t, 450, testutil.ToFloat64(m.answers.vec.WithLabelValues("422", otherAnswers)), 0)
}
