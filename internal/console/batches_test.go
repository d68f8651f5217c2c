package console

import (
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
)

// TestACorrectionSharesTheDoubt: an import that corrects an order in doubt counts it as
// that is counted, until the API or a person ends the doubt.
func TestACorrectionSharesTheDoubt(t *testing.T) {
	b := newBatches(nil, zerolog.Nop())
	counted := func(batch string) (unknown, rejected, conflicts int) {
		i, known := b.names[batch]
		require.True(t, known)
		c := b.all[i].batchCount
		require.Equal(t, 1, c.Total())
		return c.Outcomes[order.OutcomeUnknown], c.Outcomes[order.OutcomeRejected], c.Conflicts
	}
	r := &order.Record{OrderNo: "A-1", IntentID: "a-1", BodyHash: "aa", Batch: "april"}
	r.Refuse(&order.Record{IntentID: "m-1", BodyHash: "bb", Batch: "may"})
	for range 2 { // a record may be read again
		r.SetOutcome(order.OutcomeUnknown)
		b.count(r)
		for _, batch := range []string{"april", "may"} {
			unknown, _, _ := counted(batch)
			require.Equal(t, 1, unknown, batch)
		}
	}
	r.SetOutcome(order.OutcomeRejected)
	b.count(r)
	_, rejected, _ := counted("may")
	require.Equal(t, 1, rejected)
	r.SetOutcome(order.OutcomeAccepted)
	b.count(r)
	_, _, conflicts := counted("may")
	require.Equal(t, 1, conflicts)
	_, _, conflicts = counted("april")
	require.Zero(t, conflicts)
}
