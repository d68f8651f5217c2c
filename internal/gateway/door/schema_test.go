package door

import (
	"testing"

	"github.com/stretchr/testify/require"

	"orderpost/internal/order"
	"orderpost/internal/order/schema"
)

// TestTheUsersSchema: an order that breaks it is not stored. One that was stored before is
// the same as ever, also if it would break the schema by now.
func TestTheUsersSchema(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.submit(one("old", "i-old"), Stored)
	r.submit(one("settled", "i-settled"), Stored)
	r.submit(one("corrected", "i-other"), Stored)
	var err error
	r.schema, err = schema.Parse("s.json", []byte(`{"properties":{"qty":{"const":"2"}}}`))
	require.NoError(t, err)
	stored := func() uint64 {
		counts, err := r.worker.Census.Count(t.Context())
		require.NoError(t, err)
		return counts.LastIntent
	}
	before := stored()
	for _, o := range []Order{one("new", "i-new"), one("new", ""), one("new", "i-new"), one("corrected", "i-broken")} { // with and without an id, again, and beside another that waits
		receipt, err := r.Submit(t.Context(), o)
		var bad *InvalidError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, InvalidError{Where: "qty", Seen: `"1" is not "2" (order schema, /properties/qty/const)`, Do: "correct the order", Code: "schema"}, *bad)
		require.NotEmpty(t, receipt.ID)
		require.NotEmpty(t, receipt.OrderNo)
	}
	require.Equal(t, before, stored())
	r.submit(Order{Body: body("new", "2"), ID: "i-fine"}, Stored)

	r.submit(one("old", "i-old"), Same)
	r.answer(4, order.Accepted)
	r.submit(one("settled", "i-settled"), Same)
	_, err = r.Submit(t.Context(), Order{Body: body("settled", "3"), ID: "i-settled"})
	require.ErrorIs(t, err, ErrIDUsed)
}
